package filestore

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/storetest"
)

// children are what this binary does as a process of its own, by the
// environment variable that tells it so and in which directory.
var children = map[string]func(dir string) int{}

func TestMain(m *testing.M) {
	storetest.Worker(openQuick)
	for variable, work := range children {
		if dir := os.Getenv(variable); dir != "" {
			os.Exit(work(dir))
		}
	}
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		checks.Value.Set("30") // enough for every day; -rapid.checks=1000 for a thorough search
	}
	os.Exit(m.Run())
}

// openQuick opens the store as tests want it: logs are rotated early, so that
// every test meets it, and Watch looks often.
func openQuick(dir string) (fusebox.Store, error) {
	return Open(Config{Dir: dir, Rotate: 100 << 10, Poll: 10 * time.Millisecond})
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Subject{
		Shares:    true,
		New:       func(t *testing.T) string { return t.TempDir() },
		Open:      openQuick,
		Processes: true,
		Verify:    func(t *testing.T, dir string) { refoldAll(t, dir) },
	})
}
