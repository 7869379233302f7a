package main

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	onlyLibrary = flag.String("library", "", "the library to try; all ways of using fusebox if not given")
	onlyCase    = flag.String("case", "", "the odd case to try; all if not given")
)

// TestOddCases tries every odd case. Of fusebox all must pass.
func TestOddCases(t *testing.T) {
	for _, l := range libraries {
		if *onlyLibrary == "" && !ours(l) || *onlyLibrary != "" && *onlyLibrary != l.name {
			continue
		}
		for _, o := range oddCases {
			if *onlyCase != "" && *onlyCase != o.name {
				continue
			}
			t.Run(l.name+"/"+o.name, func(t *testing.T) {
				v := try(t, l, o)
				fmt.Println(verdictMark + v) // for the table
				if v != "" {
					t.Errorf("want: %s; have: %s", o.want, v)
				}
			})
		}
	}
}

// try runs a case in a bubble of virtual time.
func try(t *testing.T, l library, o oddCase) (verdict string) {
	verdict = "the caller hangs"
	// A bubble that cannot end, since a library leaves goroutines behind, panics.
	defer func() { recover() }()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(40 * 365 * 24 * time.Hour) // from 2000 to after the libraries' own start
		r := streak
		if l.open(r, oddLimit) == nil {
			r = rate
		}
		verdict = oddCaseRuns[o.name](&trial{t, l.open(r, oddLimit)})
	})
	return verdict
}

// trial is one odd case of one library.
type trial struct {
	*testing.T
	c circuit
}

// attempt is a call that waits until it is told how to end.
type attempt struct {
	inside   atomic.Bool // it was let in
	answer   chan func() error
	ended    chan struct{} // its caller has its answer
	panicked any
}

func working() error { return nil }
func failing() error { return errBroken }

// start makes a call in a goroutine of its own.
func (t *trial) start(ctx context.Context) *attempt {
	a := &attempt{answer: make(chan func() error, 1), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		defer func() { a.panicked = recover() }()
		t.c.call(ctx, func(ctx context.Context) error {
			a.inside.Store(true)
			return (<-a.answer)()
		})
	}()
	return a
}

// begin starts a call and waits until it was let in or refused.
func (t *trial) begin(ctx context.Context) *attempt {
	a := t.start(ctx)
	synctest.Wait()
	return a
}

// end lets the call end so, and reports whether it was let in and its caller
// has got its answer.
func (a *attempt) end(answer func() error) bool {
	if !a.inside.Load() {
		return false
	}
	a.answer <- answer
	synctest.Wait()
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// open makes calls fail until one is refused.
func (t *trial) open() {
	for range 1000 {
		if !t.begin(t.Context()).end(failing) {
			return
		}
	}
}

// probe opens the circuit, waits for the cooldown, and begins a call.
func (t *trial) probe(ctx context.Context) (*attempt, string) {
	t.open()
	time.Sleep(cooldown + time.Second)
	a := t.begin(ctx)
	if !a.inside.Load() {
		return nil, "no probe"
	}
	return a, ""
}

// refuses reports whether the circuit refuses twenty failing calls.
func (t *trial) refuses() bool {
	for range 20 {
		if t.begin(t.Context()).end(failing) {
			return false
		}
	}
	return true
}

// closed reports whether calls are let in beside each other. They succeed.
func (t *trial) closed() bool {
	one, two := t.begin(t.Context()), t.begin(t.Context())
	both := one.inside.Load() && two.inside.Load()
	one.end(working)
	two.end(working)
	return both
}

// heals makes calls that succeed for five minutes, and returns what is wrong
// if the circuit does not close.
func (t *trial) heals() string {
	for range 10 {
		time.Sleep(cooldown + time.Second)
		if t.begin(t.Context()).end(working) && t.closed() {
			return ""
		}
	}
	return "shut for ever"
}
