package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a new terminal: the end that a person has, and the end that
// programs have.
func terminal(t *testing.T) (person, programs *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, programs
}

// A session has its terminal as if fusebox were not there: it reads what is
// typed, and ctrl-C ends it, which is no evidence against the agent; it was
// taken for a crash where the agent's end was seen before the signal.
func TestRunKeepsTheTerminal(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt) // else the agent ignores it where these tests were started to
	defer signal.Stop(heard)
	p := newPlace(t)
	person, programs := terminal(t)
	const agent = `test -t 0 && test -t 1 && test -t 2 && echo on a terminal; read word; echo "read $word"; exec sleep 60`
	cmd := p.command(t.Context(), "run", "--circuit", "session/a", "--", "sh", "-c", agent)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = programs, programs, programs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	programs.Close() // so that reading ends when they have ended
	stop := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer stop.Stop()
	said := bufio.NewReader(person)
	until := func(want string) {
		t.Helper()
		for {
			line, err := said.ReadString('\n')
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if strings.TrimSpace(line) == want {
				return
			}
		}
	}
	until("on a terminal")
	fmt.Fprint(person, "hello\n")
	until("read hello")
	fmt.Fprint(person, "\x03")
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit code %d, want 130: %v", code, err)
	}
	if s := p.statusOf("session/a"); s["health"] != "unknown" || s["phase"] != "closed" {
		t.Errorf("ctrl-C is evidence: %v", s)
	}
}
