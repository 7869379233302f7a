//go:build unix

package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// server is a redis-server of the test's own, on a free port of this machine.
type server struct {
	testing.TB
	port    int
	options []string
	command *exec.Cmd
	said    bytes.Buffer
}

// startServer starts a server without persistence, which ends with the test.
func startServer(t testing.TB, options ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatalf("%v: scripts/install-test-deps.sh installs it", err)
	}
	s := &server{TB: t, port: freePort(t), options: options}
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start starts the server at its port, empty, and waits until it answers.
func (s *server) start() {
	s.Helper()
	s.launch(append([]string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
		"--dir", s.TempDir()}, s.options...)...)
}

// launch starts a process and waits until it answers.
func (s *server) launch(args ...string) {
	s.Helper()
	s.command = exec.Command("redis-server", args...)
	s.command.Stdout = &s.said
	if err := s.command.Start(); err != nil {
		s.Fatal(err)
	}
	s.eventually("the server answers", func() bool {
		c, err := net.Dial("tcp", s.host())
		if err != nil {
			return false
		}
		defer c.Close()
		fmt.Fprint(c, "PING\r\n")
		answer := make([]byte, 100)
		n, _ := c.Read(answer)
		return n > 0 && !strings.HasPrefix(string(answer[:n]), "-LOADING")
	})
}

func (s *server) host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }
func (s *server) url() string  { return "redis://" + s.host() + "/0" }

// kill ends the server at once. All data are lost.
func (s *server) kill() {
	if s.command.ProcessState == nil {
		s.command.Process.Signal(syscall.SIGCONT)
		s.command.Process.Kill()
		s.command.Wait()
	}
}

// stop freezes the server, and wake lets it go on.
func (s *server) stop() { s.command.Process.Signal(syscall.SIGSTOP) }
func (s *server) wake() { s.command.Process.Signal(syscall.SIGCONT) }

// do runs a command of the server.
func (s *server) do(command ...string) rueidis.RedisResult {
	s.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.host()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(command...).Build())
}

// connections counts those that were ever made.
func (s *server) connections() (n int) {
	s.Helper()
	stats, err := s.do("INFO", "stats").ToString()
	if err != nil {
		s.Fatal(err)
	}
	_, rest, _ := strings.Cut(stats, "total_connections_received:")
	fmt.Sscan(rest, &n)
	return n
}

func (s *server) eventually(what string, true func() bool) {
	s.Helper()
	eventually(s.TB, what, true)
}

// eventually waits until something is true, for a long time if need be.
func eventually(t testing.TB, what string, true func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !true(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
