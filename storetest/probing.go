package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// due opens the circuit so that its cooldown is over, and returns the version.
func due(b *bed, s fusebox.Store, p fusebox.Policy) uint64 {
	b.Helper()
	at := ago(time.Hour)
	state := b.apply(s, p, failure(at), failure(at), failure(at))
	if state.Phase != fusebox.Open || !state.Decide(time.Now()).Probe {
		b.Fatalf("have %v, decision %+v", state.Phase, state.Decide(time.Now()))
	}
	return state.Version
}

func lateResultsDoNotVote(t *testing.T, b *bed) {
	s := b.open()
	version := due(b, s, policy())
	late := success(ago(0))
	late.Admitted, late.Version = true, version-1
	if state := b.apply(s, policy(), late); state.Phase != fusebox.Open || state.Version != version {
		t.Errorf("a late success moved it: %v, version %d", state.Phase, state.Version)
	}
	state := b.apply(s, policy(), lease("l", ago(0), ago(-time.Minute)))
	bad := failure(ago(0))
	bad.Admitted, bad.Version = true, version-1
	if state = b.apply(b.open(), policy(), bad); state.Phase != fusebox.HalfOpen {
		t.Errorf("a late failure reopened it: %v", state.Phase)
	}
	state = b.apply(s, policy(), verdict(success(ago(0)), "l", state.Version))
	if state.Phase != fusebox.Closed {
		t.Errorf("the probe did not close it: %v", state.Phase)
	}
	if state = b.apply(s, policy(), bad, bad, bad); state.Phase != fusebox.Closed || state.Streak != 0 {
		t.Errorf("late failures count: %v, streak %d", state.Phase, state.Streak)
	}
	marked := 0
	for _, e := range b.log(s, name) {
		if e.Kind == fusebox.KindEvidence && e.Admitted && e.Lease == "" && !e.Late {
			t.Errorf("a result without a vote is recorded as if it had one: %+v", e)
		} else if e.Late {
			marked++
		}
	}
	if marked != 5 {
		t.Errorf("%d results are recorded as late, want 5", marked)
	}
}

func oneProbeAtATime(t *testing.T, b *bed) {
	due(b, b.open(), policy())
	var wg sync.WaitGroup
	granted := make(chan string, 40)
	for i := range 4 {
		s := b.open()
		for j := range 10 {
			wg.Go(func() {
				token := fmt.Sprint("probe-", i, "-", j)
				state, err := s.Apply(t.Context(), name, policy(), lease(token, ago(0), ago(-time.Minute)))
				if err != nil {
					t.Error(err)
				} else if state.HasLease(token) {
					granted <- token
				}
			})
		}
	}
	wg.Wait()
	if len(granted) != 1 {
		t.Errorf("%d probes hold a lease, want 1", len(granted))
	}
}

func lapsedLease(t *testing.T, b *bed) {
	s := b.open()
	due(b, s, policy())
	state := b.apply(s, policy(), lease("first", ago(10*time.Minute), ago(9*time.Minute)))
	version := state.Version
	if !state.HasLease("first") {
		t.Fatal("no lease was granted")
	}
	state = b.apply(b.open(), policy(), lease("second", ago(0), ago(-time.Minute)))
	if !state.HasLease("second") || state.HasLease("first") {
		t.Fatalf("leases %+v, want the second alone", state.Leases)
	}
	if state = b.apply(s, policy(), verdict(success(ago(0)), "first", version)); state.Phase != fusebox.HalfOpen {
		t.Errorf("the old probe's result counted: %v", state.Phase)
	}
	if state = b.apply(s, policy(), verdict(success(ago(0)), "second", state.Version)); state.Phase != fusebox.Closed {
		t.Errorf("the new probe's result did not: %v", state.Phase)
	}
}

func canceledProbe(t *testing.T, b *bed) {
	s := b.open()
	due(b, s, policy())
	state := b.apply(s, policy(), lease("first", ago(0), ago(-time.Minute)))
	state = b.apply(s, policy(), verdict(fusebox.Event{At: ago(0), Outcome: fusebox.Canceled}, "first", state.Version))
	if state.Phase != fusebox.HalfOpen || len(state.Leases) != 0 {
		t.Errorf("have %v, leases %+v", state.Phase, state.Leases)
	}
	if state = b.apply(b.open(), policy(), lease("second", ago(0), ago(-time.Minute))); !state.HasLease("second") {
		t.Error("its slot did not come back")
	}
}

func concurrentWriters(t *testing.T, b *bed) {
	const writers, each = 6, 40
	p := policy()
	p.Trip = []fusebox.Trip{fusebox.Count(1000, time.Hour)}
	var wg sync.WaitGroup
	for w := range writers {
		s := b.open()
		wg.Go(func() {
			for i := range each {
				e := failure(ago(0))
				e.Worker, e.Call = fmt.Sprint(w), fmt.Sprint(i)
				if _, err := s.Apply(t.Context(), name, p, e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := b.open()
	if state := b.apply(s, fusebox.Policy{}); state.Votes != writers*each || state.Streak != writers*each {
		t.Errorf("votes %d, streak %d, want %d", state.Votes, state.Streak, writers*each)
	}
	next := map[string]int{}
	for _, e := range b.log(s, name) {
		if e.Kind != fusebox.KindEvidence {
			continue
		}
		if e.Call != fmt.Sprint(next[e.Worker]) {
			t.Fatalf("writer %s: record %s where %d was due", e.Worker, e.Call, next[e.Worker])
		}
		next[e.Worker]++
	}
	for w := range writers {
		if got := next[fmt.Sprint(w)]; got != each {
			t.Errorf("writer %d: %d records, want %d", w, got, each)
		}
	}
}
