package filestore

import (
	"os"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/storetest"
)

func TestMain(m *testing.M) {
	storetest.Worker(openQuick)
	os.Exit(m.Run())
}

// openQuick opens the store as tests want it: logs are rotated early, so that
// every test meets it, and Watch looks often.
func openQuick(dir string) (fusebox.Store, error) {
	return Open(Config{Dir: dir, Rotate: 100 << 10, Poll: 10 * time.Millisecond})
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Subject{
		New:       func(t *testing.T) string { return t.TempDir() },
		Open:      openQuick,
		Processes: true,
		Verify:    func(t *testing.T, dir string) { refoldAll(t, dir) },
	})
}
