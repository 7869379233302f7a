//go:build unix

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

const name = "model/provider/large"

// policy opens at three failures within an hour and cools down briefly.
func policy() fusebox.Policy {
	return fusebox.Policy{
		Trip:     []fusebox.Trip{fusebox.Count(3, time.Hour)},
		Cooldown: fusebox.Cooldown{After: 300 * time.Millisecond, Growth: 1},
		Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1, Attempts: 1, Lease: time.Minute},
		Quorum:   1,
	}
}

// coolDown is policy with another cooldown.
func coolDown(d time.Duration) fusebox.Policy {
	p := policy()
	p.Cooldown.After = d
	return p
}

func openStore(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(Config{URL: url, Heartbeat: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// worker is one process of a fleet, as far as its circuit is concerned.
type worker struct {
	*testing.T
	store   *Store
	box     *fusebox.Box
	circuit *fusebox.Circuit
	waits   *waits // of its fleet
}

func newWorker(t *testing.T, url string, p fusebox.Policy) *worker {
	t.Helper()
	return newFleet(t, 1, url, p)[0]
}

// newFleet makes n workers of one host. When the test ends it logs how long
// their calls waited for permits.
func newFleet(t *testing.T, n int, url string, p fusebox.Policy) (fleet []*worker) {
	t.Helper()
	all := new(waits)
	t.Cleanup(func() { t.Logf("permits of a fleet of %d: %v", n, all) })
	for range n {
		w := newWorkerOn(t, "", url, p)
		w.waits = all
		fleet = append(fleet, w)
	}
	return fleet
}

// newWorkerOn makes a worker of a host.
func newWorkerOn(t *testing.T, host, url string, p fusebox.Policy) *worker {
	t.Helper()
	store := openStore(t, url)
	return newWorkerWith(t, host, store, store, p)
}

// newWorkerWith makes a worker whose box sees the store as seen does.
func newWorkerWith(t *testing.T, host string, store *Store, seen fusebox.Store, p fusebox.Policy) *worker {
	t.Helper()
	w := &worker{T: t, store: store, waits: new(waits)}
	var err error
	w.box, err = fusebox.New(fusebox.Config{
		Store: seen, Worker: host + ":1", Report: 20 * time.Millisecond, Policy: func(string) fusebox.Policy { return p }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.box.Close(ctx)
	})
	if w.circuit, err = w.box.Circuit(name); err != nil {
		t.Fatal(err)
	}
	return w
}

// allow asks for a permit and notes how long that took.
func (w *worker) allow() (fusebox.Permit, error) {
	begin := time.Now()
	p, err := w.circuit.Allow(context.Background())
	took := time.Since(begin)
	switch {
	case err != nil:
		w.waits.refused.add(took)
	case p.Probe():
		w.waits.probes.add(took)
	default:
		w.waits.passed.add(took)
	}
	return p, err
}

// call makes a call and reports whether it was let through.
func (w *worker) call(outcome fusebox.Outcome) bool {
	p, err := w.allow()
	if err != nil {
		return false
	}
	r := fusebox.Result{Outcome: outcome}
	if outcome == fusebox.Failure {
		r.Class = fusebox.ClassServer
	}
	p.Done(r)
	return true
}

// fail makes n calls that must be let through, and fail.
func (w *worker) fail(n int) {
	w.Helper()
	for range n {
		if !w.call(fusebox.Failure) {
			w.Fatalf("a call was refused: %+v", w.circuit.Status())
		}
	}
}

// flush waits until the store has everything.
func (w *worker) flush() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.box.Flush(ctx); err != nil {
		w.Fatal(err)
	}
}

func (w *worker) phase() fusebox.Phase { return w.circuit.Status().Phase }

// becomes waits for a phase and returns how long that took.
func (w *worker) becomes(p fusebox.Phase) time.Duration {
	w.Helper()
	begin := time.Now()
	eventually(w.T, "the worker sees "+p.String(), func() bool { return w.phase() == p })
	return time.Since(begin)
}

// recovers calls until a call is let through and succeeds, and waits for the
// circuit to close; it returns how long that took.
func (w *worker) recovers() time.Duration {
	w.Helper()
	begin := time.Now()
	eventually(w.T, "the circuit closes", func() bool { w.call(fusebox.Success); return w.phase() == fusebox.Closed })
	return time.Since(begin)
}

// stored reads the state from the server, by a connection of its own.
func stored(t *testing.T, url string) fusebox.State {
	t.Helper()
	s := openStore(t, url)
	defer s.Close()
	state, err := s.Apply(t.Context(), name, fusebox.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// logged counts the records of a circuit by kind, a run of successes by its
// calls.
func logged(t *testing.T, url string) map[fusebox.EventKind]int {
	t.Helper()
	s := openStore(t, url)
	defer s.Close()
	counts := map[fusebox.EventKind]int{}
	for e, err := range s.Evidence(t.Context(), name, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		counts[e.Kind] += max(e.N, 1)
	}
	return counts
}
