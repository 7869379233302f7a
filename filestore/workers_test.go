package filestore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// As many workers are kept as are listed; those whose time is over make room
// for new ones, and who is there already comes again.
func TestWorkersAreBounded(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.dir, workersDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC()
	file := func(i int, until time.Time) {
		write(fmt.Sprintf("w%d.json", i), fmt.Sprintf(`{"id":"w%d","worker":"w","seen":%q,"until":%q}`,
			i, until.Add(-time.Minute).Format(time.RFC3339Nano), until.Format(time.RFC3339Nano)))
	}
	for i := range fusebox.MaxWorkers {
		file(i, now.Add(time.Minute))
	}
	write("torn.json", `{"id":`)
	write("half.json"+newSuffix, `{"id":`)
	if there, err := s.Workers(t.Context()); err != nil || len(there) != fusebox.MaxWorkers {
		t.Errorf("%d are there, %v; what cannot be read is left out", len(there), err)
	}
	if err := s.Announce(t.Context(), fusebox.Worker{ID: "new"}, time.Minute); err == nil || !strings.Contains(err.Error(), "1000 others") {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Announce(t.Context(), fusebox.Worker{ID: "w5"}, time.Minute); err != nil {
		t.Errorf("one of them, again: %v", err)
	}
	file(7, now.Add(-time.Second))
	long := now.Add(-time.Hour)
	for _, name := range []string{"w7.json", "torn.json", "half.json" + newSuffix} {
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Announce(t.Context(), fusebox.Worker{ID: "new"}, time.Minute); err != nil {
		t.Errorf("one of them is gone: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != fusebox.MaxWorkers {
		t.Errorf("%d files are kept, %v", len(entries), err)
	}
}

// A clock that is set back leaves no workers that nobody can tell from living ones.
func TestWorkerOfTheFutureIsNotThere(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now().UTC()
	s.now = func() time.Time { return clock }
	if err := s.Announce(t.Context(), fusebox.Worker{ID: "a"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(-time.Hour)
	if there, err := s.Workers(t.Context()); err != nil || len(there) != 0 {
		t.Errorf("there are %+v, %v", there, err)
	}
}
