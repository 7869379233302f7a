//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// proberVariable tells a process that it is a prober, and of which store.
const proberVariable = "FUSEBOX_REDISSTORE_PROBER"

// probeWhenTold takes a probe's slot, says so, and reports success when told.
func probeWhenTold(url string) int {
	err := func() error {
		s, err := Open(Config{URL: url})
		if err != nil {
			return err
		}
		at := time.Now()
		state, err := s.Apply(context.Background(), name, fusebox.Policy{}, fusebox.Event{
			Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Until: at.Add(300 * time.Millisecond), Lease: "prober"})
		if err != nil {
			return err
		}
		fmt.Println(state.HasLease("prober"))
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		_, err = s.Apply(context.Background(), name, fusebox.Policy{}, fusebox.Event{
			At: time.Now(), Outcome: fusebox.Success, Admitted: true, Version: state.Version, Lease: "prober"})
		if err == nil {
			fmt.Println("reported")
		}
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// prober is a process that has the one probe's slot of the circuit.
type prober struct {
	command *exec.Cmd
	in      io.Writer
	said    *bufio.Scanner
}

func startProber(t *testing.T, s *server) *prober {
	t.Helper()
	p := &prober{command: exec.Command(os.Args[0], "-test.run=^$")}
	p.command.Env = append(os.Environ(), proberVariable+"="+s.url())
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.said = in, bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.command.Process.Kill(); p.command.Wait() })
	if !p.said.Scan() || p.said.Text() != "true" {
		t.Fatalf("the prober said %q", p.said.Text())
	}
	return p
}

// takeOver waits until the worker probes.
func (w *worker) takeOver() (permit fusebox.Permit) {
	w.Helper()
	begin := time.Now()
	eventually(w.T, "another takes over", func() bool {
		p, err := w.allow()
		permit = p
		return err == nil
	})
	w.Logf("taken over after %v, with a lease of 300ms", time.Since(begin))
	return permit
}

// A prober that is killed keeps nobody from probing for longer than its lease.
func TestProberKilled(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Millisecond))
	w.fail(3)
	w.flush()
	startProber(t, s).command.Process.Kill()
	if state := stored(t, s.url()); !state.HasLease("prober") {
		t.Fatal("its lease went with it")
	}
	w.takeOver().Done(fusebox.Result{})
	w.flush()
	if state := stored(t, s.url()); state.Phase != fusebox.Closed {
		t.Errorf("the next probe settled nothing: %v", state.Phase)
	}
}

// A prober that is paused past its lease is taken over, and its verdict is void
// when it goes on: of two probes only the one with the valid lease decides.
func TestProberPausedPastItsLease(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Millisecond))
	w.fail(3)
	w.flush()
	prober := startProber(t, s)
	prober.command.Process.Signal(syscall.SIGSTOP)
	permit := w.takeOver()

	prober.command.Process.Signal(syscall.SIGCONT)
	fmt.Fprintln(prober.in, "go on")
	if !prober.said.Scan() || prober.said.Text() != "reported" {
		t.Fatalf("the prober said %q", prober.said.Text())
	}
	if state := stored(t, s.url()); state.Phase != fusebox.HalfOpen || state.HasLease("prober") {
		t.Fatalf("the void verdict counted: %v, leases %+v", state.Phase, state.Leases)
	}
	permit.Done(fusebox.Result{})
	w.flush()
	if state := stored(t, s.url()); state.Phase != fusebox.Closed {
		t.Errorf("the valid one did not: %v", state.Phase)
	}
}
