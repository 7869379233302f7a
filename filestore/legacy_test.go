package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

const claude = "session/claude"

// leave writes an older file, modified some time ago.
func leave(t *testing.T, s *Store, name, text string, ago time.Duration) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-ago)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOlderCounterCountsWhileNoLogExists(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		ago              time.Duration
		want             int
		phase            fusebox.Phase
	}{
		{"bare name", "claude.failures", "2\n", 10 * time.Minute, 2, fusebox.Closed},
		{"encoded name", "session+claude.failures", "2", 10 * time.Minute, 2, fusebox.Closed},
		{"threshold reached", "claude.failures", "3", 10 * time.Minute, 3, fusebox.Open},
		{"more than can be", "claude.failures", "999999999", 10 * time.Minute, 3, fusebox.Open},
		{"too old", "claude.failures", "3", 61 * time.Minute, 0, fusebox.Closed},
		{"in the future", "claude.failures", "3", -time.Minute, 0, fusebox.Closed},
		{"garbled", "claude.failures", "three", time.Minute, 0, fusebox.Closed},
		{"negative", "claude.failures", "-3", time.Minute, 0, fusebox.Closed},
		{"another circuit's", "codex.failures", "3", time.Minute, 0, fusebox.Closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{})
			leave(t, s, c.file, c.text, c.ago)
			state := apply(t, s, claude)
			if got := state.CountAt(state.Now); got != c.want || state.Phase != c.phase {
				t.Errorf("%d failures, %v; want %d, %v", got, state.Phase, c.want, c.phase)
			}
		})
	}
}

// The first failure that is recorded is the third, not the first.
func TestOlderCounterIsTakenOverByTheLog(t *testing.T) {
	s := open(t, Config{})
	path := leave(t, s, "claude.failures", "2", time.Minute)
	state := apply(t, s, claude, failure(time.Now()))
	if state.Phase != fusebox.Open {
		t.Errorf("phase %v after the third failure", state.Phase)
	}
	refoldAll(t, s.dir)
	if err := os.WriteFile(path, []byte("9"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply(t, s, claude, fusebox.Event{Kind: fusebox.KindReset, At: time.Now()})
	if state = apply(t, open(t, Config{Dir: s.dir}), claude); state.CountAt(state.Now) != 0 {
		t.Error("the counter counts although there is a log")
	}
}

func TestOlderBlockHoldsUntilItsTime(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Round(time.Second)
	for _, c := range []struct {
		name, file, text string
		held             bool
	}{
		{"RFC 3339", "claude.blocked-until", soon.Format(time.RFC3339) + "\n", true},
		{"another zone", "claude.blocked-until", soon.In(time.FixedZone("", 7200)).Format(time.RFC3339), true},
		{"no zone", "session+claude.blocked-until", soon.Format("2006-01-02 15:04:05"), true},
		{"over", "claude.blocked-until", "2020-01-01T00:00:00Z", false},
		{"garbled", "claude.blocked-until", "next tuesday", false},
		{"empty", "claude.blocked-until", "", false},
		{"any bytes", "claude.blocked-until", strings.Repeat("\xff\x00", 1000), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{})
			leave(t, s, c.file, c.text, 0)
			for range 2 { // without a log and with one
				state := apply(t, s, claude)
				d := state.Decide(state.Now)
				if held := d.Reason == fusebox.ReasonHeld; held != c.held {
					t.Errorf("decision %+v", d)
				}
				if c.held && !state.Hold.Until.Equal(soon) {
					t.Errorf("held until %v, want %v", state.Hold.Until, soon)
				}
				apply(t, s, claude, failure(time.Now()))
			}
			refoldAll(t, s.dir)
		})
	}
}

func TestOlderBlockIsNeverShortened(t *testing.T) {
	s := open(t, Config{})
	later := time.Now().Add(2 * time.Hour).UTC().Round(time.Second)
	leave(t, s, "claude.blocked-until", later.Format(time.RFC3339), 0)
	hold := fusebox.Event{Kind: fusebox.KindHold, Action: fusebox.ActionHeld, Phase: fusebox.Open, At: time.Now(), Until: later.Add(-time.Hour)}
	if state := apply(t, s, claude, hold); !state.Hold.Until.Equal(later) {
		t.Errorf("held until %v, want %v", state.Hold.Until, later)
	}
	hold.Until = later.Add(time.Hour)
	if state := apply(t, s, claude, hold); !state.Hold.Until.Equal(hold.Until) {
		t.Errorf("held until %v, want the longer %v", state.Hold.Until, hold.Until)
	}
}

// I14: lifting always works, an older file's block included.
func TestI14LiftingEndsAnOlderBlock(t *testing.T) {
	s := open(t, Config{})
	leave(t, s, "claude.blocked-until", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), 0)
	lift := fusebox.Event{Kind: fusebox.KindHold, Action: fusebox.ActionLifted, At: time.Now()}
	if state := apply(t, s, claude, lift); state.Hold != nil {
		t.Error("still held")
	}
	if state := apply(t, open(t, Config{Dir: s.dir}), claude); state.Hold != nil {
		t.Error("held again")
	}
}

func TestOlderFilesAreListedAndReported(t *testing.T) {
	s := open(t, Config{})
	leave(t, s, "claude.failures", "1", 0)
	leave(t, s, "model+x.blocked-until", "garbled", 0)
	var names []string
	for name := range s.Circuits(t.Context()) {
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "model/x session/claude" {
		t.Errorf("circuits %q", got)
	}
	report, err := s.Inspect(t.Context(), "model/x")
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), `have "garbled"`) {
		t.Errorf("report %+v, %v", report, err)
	}
}
