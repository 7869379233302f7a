package filestore

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// clock is what a test sets a store's clock to.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func noon() *clock { return &clock{time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)} }

// fresh is a store as a new process opens it, under the test's clock.
func (c *clock) fresh(t *testing.T, dir string) *Store {
	s := open(t, Config{Dir: dir})
	s.now = c.now
	return s
}

// I10: the clock is set back by an hour while a circuit is open. One-shot
// processes that only look must see the cooldown end all the same: after its
// whole length at most, and not before what was left of it.
func TestI10ClockSetBackDoesNotPinACircuitOpen(t *testing.T) {
	dir, at := t.TempDir(), noon()
	var state fusebox.State
	for range 5 {
		state = apply(t, at.fresh(t, dir), "model/x", failure(at.now()))
	}
	if state.Phase != fusebox.Open {
		t.Fatal("not open")
	}
	whole := state.Until.Sub(state.Since)
	at.Time = at.Add(10*time.Second - time.Hour)
	look := func() fusebox.Decision {
		s := apply(t, at.fresh(t, dir), "model/x")
		return s.Decide(at.now())
	}
	if d := look(); d.Probe || d.RetryAfter != whole {
		t.Errorf("right after: %+v, want the whole cooldown of %v", d, whole)
	}
	at.Time = at.Add(whole - time.Second)
	if d := look(); d.Probe || d.RetryAfter != time.Second {
		t.Errorf("a second before its end: %+v", d)
	}
	at.Time = at.Add(time.Second)
	if d := look(); !d.Probe {
		t.Errorf("at its end: %+v", d)
	}
	refoldAll(t, dir)
}

// I10, I4: the same for a probe whose process died.
func TestI10ClockSetBackDoesNotPinAProbe(t *testing.T) {
	dir, at := t.TempDir(), noon()
	for range 5 {
		apply(t, at.fresh(t, dir), "model/x", failure(at.now()))
	}
	at.Time = at.Add(time.Hour)
	grant := func(token string) fusebox.Event {
		return fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: token, At: at.now(), Until: at.Add(time.Minute)}
	}
	if state := apply(t, at.fresh(t, dir), "model/x", grant("dead")); !state.HasLease("dead") {
		t.Fatal("no lease")
	}
	at.Time = at.Add(-time.Hour)
	apply(t, at.fresh(t, dir), "model/x")
	at.Time = at.Add(59 * time.Second)
	if state := apply(t, at.fresh(t, dir), "model/x", grant("early")); state.HasLease("early") {
		t.Error("taken over before the lease ended")
	}
	at.Time = at.Add(time.Second)
	if state := apply(t, at.fresh(t, dir), "model/x", grant("next")); !state.HasLease("next") {
		t.Errorf("leases %+v", state.Leases)
	}
	refoldAll(t, dir)
}

// I10: a clock that was an hour ahead for a while leaves marks in the future.
// They do not open the circuit before their time, and real ones still do.
func TestI10ClockThatWasAheadOpensNothingEarly(t *testing.T) {
	dir, at := t.TempDir(), noon()
	p := fusebox.DefaultPolicy("session")
	report := func() fusebox.State {
		state, err := at.fresh(t, dir).Apply(t.Context(), claude, p, failure(at.now()))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	at.Time = at.Add(2 * time.Hour)
	report()
	report()
	at.Time = at.Add(-2 * time.Hour)
	if state := report(); state.Phase != fusebox.Closed {
		t.Error("two marks in the future and a real one opened it")
	}
	report()
	if state := report(); state.Phase != fusebox.Open || state.Since.After(at.now()) {
		t.Errorf("three real ones: %v since %v", state.Phase, state.Since)
	}
	refoldAll(t, dir)
}

// A reader that finds lines of another program in the future judges them by its
// own clock; they count once their time has come.
func TestForeignLineInTheFutureCountsInItsTime(t *testing.T) {
	dir, at := t.TempDir(), noon()
	s := at.fresh(t, dir)
	p := fusebox.DefaultPolicy("session")
	p.Trip = []fusebox.Trip{fusebox.Count(2, time.Hour)}
	if _, err := s.Apply(t.Context(), claude, p, failure(at.now())); err != nil {
		t.Fatal(err)
	}
	appendText(t, s.path(claude, logSuffix), `{"at":"2026-11-29T12:10:00Z","outcome":"failure"}`+"\n")
	if state := apply(t, s, claude); state.Phase != fusebox.Closed {
		t.Error("it counts ten minutes early")
	}
	at.Time = at.Add(10 * time.Minute)
	if state := apply(t, s, claude); state.Phase != fusebox.Open {
		t.Error("it does not count in its time")
	}
}
