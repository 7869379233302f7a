//go:build unix

package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// redisServer starts a redis-server without persistence on a free port and
// returns its host and port, and what ends it.
func redisServer(t *testing.T) (host string, kill func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(host)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatalf("%v: scripts/install-test-deps.sh installs it", err)
	}
	kill = func() {
		if server.ProcessState == nil {
			server.Process.Kill()
			server.Wait()
		}
	}
	t.Cleanup(kill)
	for deadline := time.Now().Add(limit); ; {
		if c, err := net.Dial("tcp", host); err == nil {
			c.Close()
			return host, kill
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not listen")
		}
	}
}

// Several machines report to one Redis, and all see one circuit. A store that is
// gone is said within two seconds, without its password.
func TestFleetStore(t *testing.T) {
	host, kill := redisServer(t)
	url := fmt.Sprintf("redis://default:hunter2@%s/3?prefix=team:", host)
	for i := range 5 {
		p := newPlace(t)
		p.env = append(p.env, "FUSEBOX_STORE="+url)
		var said struct{ Phase string }
		p.must("record", "--circuit", "model/a", "--outcome", "failure", "--json").decode(t, &said)
		if want := map[bool]string{true: "open", false: "closed"}[i == 4]; said.Phase != want {
			t.Errorf("after %d failures: %s, want %s", i+1, said.Phase, want)
		}
	}
	kill()
	p := newPlace(t)
	p.env = append(p.env, "FUSEBOX_STORE="+url)
	got := p.run("record", "--circuit", "model/a", "--outcome", "failure")
	if got.code != 1 || !strings.Contains(got.stderr, "not recorded") || !strings.Contains(got.stderr, "connection refused") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("exit code %d, said %q", got.code, got.stderr)
	}
}
