package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// fleet is several processes with one limit, in a bubble whose time is virtual.
type fleet struct {
	*testing.T
	store   *fusebox.Memory
	workers []*limiter
	stop    []func() // ends one, as a shutdown does
}

func newFleet(t *testing.T, n int, limit Limit, over func(fusebox.Sharer) fusebox.Sharer) *fleet {
	limit.Fleet = true
	f := &fleet{T: t, store: fusebox.NewMemory()}
	var store fusebox.Sharer = f.store
	if over != nil {
		store = over(store)
	}
	for i := range n {
		l := newLimiter(limit)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.keep(ctx, store, "a", fmt.Sprint("worker", i))
		}()
		f.workers = append(f.workers, l)
		f.stop = append(f.stop, func() {
			cancel()
			<-ended
		})
		synctest.Wait()
	}
	t.Cleanup(func() {
		for _, stop := range f.stop {
			stop()
		}
	})
	return f
}

// enter has a worker begin as many visits as it may, up to n.
func (f *fleet) enter(worker, n int) (begun int) {
	f.Helper()
	for begun < n && f.workers[worker].enter("model/a/m", time.Now()) == nil {
		begun++
	}
	return begun
}

func (f *fleet) leave(worker, n int) {
	for range n {
		f.workers[worker].leave()
	}
}

// pass lets virtual time pass.
func (f *fleet) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestALimitOfAFleetIsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, Limit{Concurrent: 12}, nil)
		f.pass(3 * time.Second)
		for i := range f.workers {
			if n := f.enter(i, 100); n != 4 {
				t.Errorf("worker %d may begin %d of 12, want its third", i, n)
			}
		}
		f.pass(10 * time.Second)
		for i := range f.workers {
			if n := f.enter(i, 100); n != 0 {
				t.Errorf("worker %d begins %d more", i, n)
			}
		}
	})
}

// Who is idle leaves all to who is not, and has a part again when it needs one.
func TestABusyProcessHasWhatIdleOnesDoNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, Limit{Concurrent: 8}, nil)
		f.pass(3 * time.Second)
		used := 0
		for range 50 {
			used += f.enter(0, 100)
			f.pass(claimAgain)
		}
		if used != 8 {
			t.Fatalf("alone it has %d of 8", used)
		}
		other := 0
		for range 50 { // the busy one begins another as soon as one ends
			if other += f.enter(1, 1); used+other > 8 {
				t.Fatal("a ninth was begun")
			}
			f.leave(0, 1)
			used += f.enter(0, 100) - 1
			f.pass(claimAgain)
		}
		if other < 2 {
			t.Errorf("who needs some has %d, want an even part", other)
		}
	})
}

// load has every worker ask at random, for what the hours bring, and calls at
// each moment with the time.
func (f *fleet) load(length, step time.Duration, begin func(worker int)) {
	for began := time.Now(); time.Since(began) < length; {
		for range 3 {
			begin(rand.IntN(len(f.workers)))
		}
		f.pass(step)
	}
}

func TestAFleetNeverHasMoreAtOnceThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 7
		f := newFleet(t, 3, Limit{Concurrent: limit}, farAway)
		f.pass(5 * time.Second)
		var running atomic.Int64
		var most int64
		begun := 0
		f.load(30*time.Second, 50*time.Millisecond, func(w int) {
			if f.enter(w, 1) == 0 {
				return
			}
			begun++
			now := running.Add(1)
			if most = max(most, now); now > limit {
				t.Errorf("%d at once", now)
			}
			time.AfterFunc(rand.N(400*time.Millisecond), func() {
				running.Add(-1)
				f.workers[w].leave()
			})
		})
		if most != limit || begun < 500 {
			t.Errorf("at most %d at once, %d in all: the limit is not used", most, begun)
		}
	})
}

func TestAFleetNeverBeginsMoreInAMinuteThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 60
		f := newFleet(t, 3, Limit{PerMinute: limit}, farAway)
		f.pass(5 * time.Second)
		var begun []time.Time
		f.load(5*time.Minute, 300*time.Millisecond, func(w int) {
			if f.enter(w, 1) == 0 {
				return
			}
			f.leave(w, 1)
			begun = append(begun, time.Now())
			if n := len(begun); n > limit && begun[n-1].Sub(begun[n-1-limit]) < time.Minute {
				t.Errorf("%d within %v", limit+1, begun[n-1].Sub(begun[n-1-limit]))
			}
		})
		if n := len(begun); n < 5*limit*9/10 {
			t.Errorf("%d begun in 5 minutes: the limit is not used", n)
		}
	})
}

// distant is a store whose answers take a while: what it has granted to one is
// long another's when the first learns that it is not its own any more.
type distant struct{ fusebox.Sharer }

func farAway(s fusebox.Sharer) fusebox.Sharer { return distant{s} }

func (d distant) Share(ctx context.Context, name string, c fusebox.Claim) (fusebox.Share, error) {
	time.Sleep(100 * time.Millisecond)
	share, err := d.Sharer.Share(ctx, name, c)
	time.Sleep(200 * time.Millisecond)
	return share, err
}

func TestADeadProcessGivesItsPartBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, Limit{Concurrent: 4}, nil)
		if _, err := f.store.Share(t.Context(), "limit/a/concurrent", fusebox.Claim{Owner: "dead", Limit: 4, Need: 4, For: callsHeld}); err != nil {
			t.Fatal(err)
		}
		f.pass(claimEvery)
		before := f.enter(0, 4)
		f.pass(callsHeld + 2*claimEvery)
		if n := before + f.enter(0, 4); n != 4 {
			t.Errorf("%d, and %d of 4 once the dead one's part has lapsed", before, n)
		}
	})
}

// What a process that ends has begun within the minute still counts; what it
// did not use is given back at once.
func TestAnEndedProcessLeavesWhatItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, Limit{PerMinute: 10, Concurrent: 10}, nil)
		f.pass(3 * time.Second)
		f.leave(0, f.enter(0, 3))
		f.stop[0]()
		n := 0
		for range 40 {
			n += f.enter(1, 100)
			f.pass(claimAgain)
		}
		if n != 7 {
			t.Errorf("%d begun beside the 3 of 10", n)
		}
		f.pass(minuteHeld)
		f.leave(1, n)
		for range 20 {
			n += f.enter(1, 100)
			f.pass(claimAgain)
		}
		if n != 17 {
			t.Errorf("%d in the minute after, want 10", n-7)
		}
	})
}

// unsteady is a store that can be out of reach.
type unsteady struct {
	fusebox.Sharer
	mu   sync.Mutex
	gone bool
}

func (u *unsteady) Share(ctx context.Context, name string, c fusebox.Claim) (fusebox.Share, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return fusebox.Share{}, errors.New("connection refused")
	}
	return u.Sharer.Share(ctx, name, c)
}

func TestWithoutItsStoreAProcessGoesOnWithAnEvenPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *unsteady
		f := newFleet(t, 3, Limit{Concurrent: 10}, func(s fusebox.Sharer) fusebox.Sharer {
			store = &unsteady{Sharer: s}
			return store
		})
		set := func(gone bool) {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.gone = gone
		}
		f.pass(3 * time.Second)
		set(true)
		f.pass(time.Minute)
		for i := range f.workers {
			if n := f.enter(i, 100); n != 4 {
				t.Errorf("worker %d may begin %d, want a third of 10, rounded up", i, n)
			}
		}
		set(false)
		f.pass(3 * time.Second)
		for i := range f.workers {
			f.leave(i, 4)
		}
		n := 0
		for range 40 { // until it is divided anew: in which order they claim is chance
			for i := range f.workers {
				n += f.enter(i, 100)
			}
			f.pass(claimAgain)
		}
		if n != 10 {
			t.Errorf("%d of 10 when the store is back", n)
		}
	})
}

func TestAStoreThatWasNeverReachedLeavesTheWholeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, Limit{Concurrent: 6}, func(s fusebox.Sharer) fusebox.Sharer { return &unsteady{Sharer: s, gone: true} })
		f.pass(time.Minute)
		for i := range f.workers {
			if n := f.enter(i, 100); n != 6 {
				t.Errorf("worker %d may begin %d", i, n)
			}
		}
	})
}
