//go:build unix

package redisstore

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/storetest"
)

func TestMain(m *testing.M) {
	storetest.Worker(openQuick)
	if url := os.Getenv(proberVariable); url != "" {
		os.Exit(probeWhenTold(url))
	}
	if task := os.Getenv(workerVariable); task != "" {
		os.Exit(work(task))
	}
	os.Exit(m.Run())
}

// openQuick opens the store as tests want it: it looks often.
func openQuick(url string) (fusebox.Store, error) {
	return Open(Config{URL: url, Heartbeat: 50 * time.Millisecond})
}

// Every test of the suite has its own prefix on one server.
func TestStore(t *testing.T) {
	s := startServer(t)
	var n atomic.Int64
	storetest.Run(t, storetest.Subject{
		New:       func(*testing.T) string { return fmt.Sprintf("%s?prefix=test%d:", s.url(), n.Add(1)) },
		Open:      openQuick,
		Processes: true,
		Shares:    true,
	})
}
