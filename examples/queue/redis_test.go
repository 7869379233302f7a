//go:build unix

package main

import (
	"net"
	"os/exec"
	"testing"
	"time"
)

// startRedis starts a redis-server without persistence on a free port of this
// machine, which ends with the test, and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(host)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatalf("%v: scripts/install-test-deps.sh installs it", err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	eventually(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", host)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "redis://" + host + "/0"
}

// eventually waits until something is so, for a long time if need be.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
