//go:build unix

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// One worker whose own network is broken: it stops for itself, also its
// neighbour on the same host, and nobody else is refused. Once the backend fails
// for others too, the circuit opens for all.
func TestI17OneBadWorker(t *testing.T) {
	s := startServer(t)
	p := coolDown(time.Hour)
	p.Quorum = 2
	var good []*worker
	for _, host := range []string{"a", "b", "c"} {
		w := newWorkerOn(t, host, s.url(), p)
		if !w.call(fusebox.Success) {
			t.Fatal("the first call was refused")
		}
		w.flush()
		good = append(good, w)
	}
	bad, neighbour := newWorkerOn(t, "broken", s.url(), p), newWorkerOn(t, "broken", s.url(), p)
	reached := 0
	for bad.call(fusebox.Failure) {
		reached++
		bad.flush()
		if reached > 100 {
			t.Fatal("the bad worker is never refused")
		}
	}
	if reached != 3 {
		t.Errorf("%d calls of the bad worker went out, want the threshold, 3", reached)
	}
	neighbour.becomes(fusebox.Open)
	for i, w := range good {
		for range 20 {
			if !w.call(fusebox.Success) {
				t.Fatalf("I17: good worker %d was refused: %+v", i, w.circuit.Status())
			}
		}
		w.flush()
	}
	report, err := fusebox.ReadReport(context.Background(), good[0].store, name)
	if err != nil {
		t.Fatal(err)
	}
	if hosts := report.Circuits[0].Hosts; len(hosts) != 1 || hosts[0].Host != "broken" || hosts[0].Phase != fusebox.Open {
		t.Errorf("hosts whose own circuits are open: %+v, want the broken one", hosts)
	}
	good[1].fail(1)
	for _, w := range good {
		w.becomes(fusebox.Open)
	}
	t.Logf("the bad worker's calls that went out: %d; of the good ones none of %d was refused", reached, 3*20)
}

// The bad worker heals: its host's probe closes its own circuit.
func TestI17TheBadWorkerComesBackByItself(t *testing.T) {
	s := startServer(t)
	p := policy()
	p.Quorum = 0 // the store's own: two
	good := newWorkerOn(t, "a", s.url(), p)
	good.call(fusebox.Success)
	good.flush()
	bad := newWorkerOn(t, "broken", s.url(), p)
	bad.fail(3)
	bad.becomes(fusebox.Open)
	took := bad.recovers()
	if v := bad.circuit.Status().Version; v != 0 {
		t.Errorf("the circuit itself moved %d times, want none", v)
	}
	t.Logf("back after %v, with a cooldown of %v", took, policy().Cooldown.After)
}

// What a worker that was cut off refused meanwhile is told late: the server's
// clock was not set back, and what began since goes on.
func TestI10RefusalsToldLateLeaveTheCooldown(t *testing.T) {
	s := startServer(t)
	store := openStore(t, s.url())
	p := coolDown(3 * time.Minute)
	p.Quorum = 2
	apply := func(events ...fusebox.Event) fusebox.State {
		t.Helper()
		state, err := store.Apply(t.Context(), name, p, events...)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	now := time.Now()
	refusal := fusebox.Event{Kind: fusebox.KindDenied, At: now.Add(-10 * time.Minute), Reason: fusebox.ReasonOpen, Worker: "cut-off:1"}
	request := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: "late", At: now.Add(-10 * time.Minute), Worker: "cut-off:1"}
	t.Run("a host's own circuit", func(t *testing.T) {
		failure := fusebox.Event{At: now, Outcome: fusebox.Failure, Worker: "cut-off:2"}
		apply(fusebox.Event{At: now, Outcome: fusebox.Success, Worker: "good:1"})
		before := apply(failure, failure, failure)
		after := apply(refusal, request)
		if have, want := after.For("cut-off:1"), before.For("cut-off:1"); have.Phase != fusebox.Open || !have.Until.Equal(want.Until) {
			t.Errorf("%v until %v, want it open until %v", have.Phase, have.Until, want.Until)
		}
	})
	t.Run("the circuit", func(t *testing.T) {
		before := apply(fusebox.Event{Kind: fusebox.KindTrip, At: now})
		if after := apply(refusal, request); after.Phase != fusebox.Open || !after.Until.Equal(before.Until) {
			t.Errorf("%v until %v, want it open until %v", after.Phase, after.Until, before.Until)
		}
	})
}
