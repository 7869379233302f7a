//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"fmt"
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
			Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Until: at.Add(300 * time.Millisecond), Lease: "paused"})
		if err != nil {
			return err
		}
		fmt.Println(state.HasLease("paused"))
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		_, err = s.Apply(context.Background(), name, fusebox.Policy{}, fusebox.Event{
			At: time.Now(), Outcome: fusebox.Success, Admitted: true, Version: state.Version, Lease: "paused"})
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

// A prober that is paused past its lease is taken over, and its verdict is void
// when it goes on: of two probes only the one with the valid lease decides.
func TestProberPausedPastItsLease(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Millisecond))
	w.fail(3)
	w.flush()

	prober := exec.Command(os.Args[0], "-test.run=^$")
	prober.Env = append(os.Environ(), proberVariable+"="+s.url())
	prober.Stderr = os.Stderr
	in, err := prober.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := prober.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := prober.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prober.Process.Kill(); prober.Wait() })
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "true" {
		t.Fatalf("the prober said %q", said.Text())
	}
	prober.Process.Signal(syscall.SIGSTOP)

	begin := time.Now()
	var permit fusebox.Permit
	eventually(t, "another takes over", func() bool {
		p, err := w.allow()
		permit = p
		return err == nil
	})
	t.Logf("taken over after %v, with a lease of 300ms", time.Since(begin))

	prober.Process.Signal(syscall.SIGCONT)
	fmt.Fprintln(in, "go on")
	if !said.Scan() || said.Text() != "reported" {
		t.Fatalf("the prober said %q", said.Text())
	}
	if state := stored(t, s.url()); state.Phase != fusebox.HalfOpen || state.HasLease("paused") {
		t.Fatalf("the void verdict counted: %v, leases %+v", state.Phase, state.Leases)
	}
	permit.Done(fusebox.Result{})
	w.flush()
	if state := stored(t, s.url()); state.Phase != fusebox.Closed {
		t.Errorf("the valid one did not: %v", state.Phase)
	}
}
