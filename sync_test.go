package fusebox_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// faultyStore is a store that can be made slow, fail, hang or lose its data.
type faultyStore struct {
	mu     sync.Mutex
	store  fusebox.Store
	delay  time.Duration
	failed error
	hangs  bool

	mute bool            // what is reported arrives, its answer does not
	sent []fusebox.Event // all that arrived
	told chan fusebox.State

	announced int
}

func (f *faultyStore) set(change func(*faultyStore)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faultyStore) inner(ctx context.Context) (fusebox.Store, error) {
	f.mu.Lock()
	store, delay, failed, hangs := f.store, f.delay, f.failed, f.hangs
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if delay > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delay):
		}
	}
	return store, failed
}

func (f *faultyStore) Apply(ctx context.Context, circuit string, p fusebox.Policy, events ...fusebox.Event) (fusebox.State, error) {
	store, err := f.inner(ctx)
	if err != nil {
		return fusebox.State{}, err
	}
	s, err := store.Apply(ctx, circuit, p, events...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent = append(f.sent, events...); f.mute {
		return fusebox.State{}, errors.New("connection reset")
	}
	return s, err
}

func (f *faultyStore) Watch(ctx context.Context, changed func(string, fusebox.State)) error {
	f.mu.Lock()
	store, told := f.store, f.told
	f.mu.Unlock()
	if told == nil {
		return store.Watch(ctx, changed)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-told:
			changed("model/a", s)
		}
	}
}

func (f *faultyStore) Circuits(ctx context.Context) iter.Seq2[string, error] {
	return f.store.Circuits(ctx)
}

func (f *faultyStore) Evidence(ctx context.Context, circuit string, since time.Time) iter.Seq2[fusebox.Event, error] {
	return f.store.Evidence(ctx, circuit, since)
}

func (f *faultyStore) Announce(ctx context.Context, w fusebox.Worker, ttl time.Duration) error {
	f.set(func(f *faultyStore) { f.announced++ })
	store, err := f.inner(ctx)
	if err != nil {
		return err
	}
	return store.(fusebox.Presence).Announce(ctx, w, ttl)
}

func (f *faultyStore) Workers(ctx context.Context) ([]fusebox.Worker, error) {
	return f.store.(fusebox.Presence).Workers(ctx)
}

func (f *faultyStore) Close() error { return nil }

// shared returns a box on a store that can be made faulty, and another box on
// the same store that never is.
func shared(t *testing.T) (store *faultyStore, mine, other *fusebox.Box) {
	t.Helper()
	memory := fusebox.NewMemory()
	store = &faultyStore{store: memory}
	cfg := fusebox.Config{Policy: onePolicy(nil), Store: store}
	mine = newBox(t, cfg)
	cfg.Store = memory
	return store, mine, newBox(t, cfg)
}

func TestI15StoreThatFailsDelaysAndRefusesNothing(t *testing.T) {
	faults := map[string]func(*faultyStore){
		"down":  func(f *faultyStore) { f.failed = errors.New("connection refused") },
		"hangs": func(f *faultyStore) { f.hangs = true },
		"slow":  func(f *faultyStore) { f.delay = 1500 * time.Millisecond },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, mine, _ := shared(t)
				c := circuit(t, mine, "model/a")
				store.set(fault)
				begin := time.Now()
				for range 100 {
					succeed(t, c)
				}
				fail(t, c, 3)
				if took := time.Since(begin); took != 0 {
					t.Errorf("calls were delayed by %v", took)
				}
				wantPhase(t, c, fusebox.Open)
				time.Sleep(31 * time.Second)
				synctest.Wait()
				begin = time.Now()
				var p fusebox.Permit
				var err error
				for range 3 { // a slow store may cost a call the probe, and grants it to the next
					if p, err = c.Allow(t.Context()); err == nil {
						break
					}
					if took := time.Since(begin); took > 10*time.Millisecond {
						t.Errorf("a call was delayed by %v", took)
					}
					time.Sleep(2 * time.Second)
					begin = time.Now()
				}
				if err != nil || !p.Probe() {
					t.Fatalf("want a probe, have %v", err)
				}
				p.Done(fusebox.Result{})
				wantPhase(t, c, fusebox.Closed)
				if name != "slow" && !c.Status().Local {
					t.Error("the status does not say that it is local")
				}
				store.set(func(f *faultyStore) { f.failed, f.hangs, f.delay = nil, false, 0 })
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if c.Status().Local {
					t.Error("it did not join the store again")
				}
			})
		})
	}
}

// A worker that lost the store paused for a second between its tries: longer
// than the heartbeat within which it is to be back.
func TestWorkerIsBackWithinAHeartbeatOfItsStore(t *testing.T) {
	const heartbeat = 600 * time.Millisecond // the shortest of redisstore
	for _, away := range []time.Duration{time.Millisecond, 499 * time.Millisecond, time.Second, 10*time.Second + time.Millisecond} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, mine, _ := shared(t)
				c := circuit(t, mine, "model/a")
				store.set(func(f *faultyStore) { f.failed = errors.New("down") })
				fail(t, c, 1)
				synctest.Wait()
				if !c.Status().Local {
					t.Fatal("it did not notice")
				}
				time.Sleep(away)
				store.set(func(f *faultyStore) { f.failed = nil })
				time.Sleep(heartbeat)
				synctest.Wait()
				if c.Status().Local {
					t.Error("it is not back")
				}
			})
		})
	}
}

func TestWhatHappenedLocallyIsReportedWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, others := shared(t)
		c, other := circuit(t, mine, "model/a"), circuit(t, others, "model/a")
		store.set(func(f *faultyStore) { f.failed = errors.New("down") })
		fail(t, c, 3)
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		wantPhase(t, other, fusebox.Closed)
		store.set(func(f *faultyStore) { f.failed = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantPhase(t, other, fusebox.Open)
		if a, b := c.State(), other.State(); a.Version != b.Version || !a.Until.Equal(b.Until) {
			t.Errorf("two realities: %+v and %+v", a, b)
		}
	})
}

func TestStoreThatLostItsDataIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		fail(t, c, 3)
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		empty := fusebox.NewMemory()
		store.set(func(f *faultyStore) { f.store = empty })
		c.Throttle(time.Now().Add(time.Second), "anything that is reported")
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		s, err := empty.Apply(t.Context(), "model/a", fusebox.Policy{})
		if err != nil || s.Phase != fusebox.Open {
			t.Errorf("the store knows %v, %v", s.Phase, err)
		}
	})
}

// The failure that makes it enough must not be the first that the store knows of.
func TestStoreThatLostItsDataLearnsWhatWasCountedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		fail(t, c, 2)
		synctest.Wait()
		empty := fusebox.NewMemory()
		store.set(func(f *faultyStore) { f.store = empty })
		fail(t, c, 1)
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		if s, err := empty.Apply(t.Context(), "model/a", fusebox.Policy{}); err != nil || s.Phase != fusebox.Open {
			t.Errorf("the store knows %v, %v", s.Phase, err)
		}
	})
}

// A circuit that nobody calls has nothing to report: it is the watch that shows
// what the store has lost.
func TestStoreThatLostItsDataIsHealedByAnIdleProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{store: fusebox.NewMemory(), told: make(chan fusebox.State)}
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil), Store: store}), "model/a")
		fail(t, c, 3)
		synctest.Wait()
		empty := fusebox.NewMemory()
		store.set(func(f *faultyStore) { f.store = empty })
		store.told <- fusebox.State{Revision: 1000}
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		if s, err := empty.Apply(t.Context(), "model/a", fusebox.Policy{}); err != nil || s.Phase != fusebox.Open {
			t.Errorf("the store knows %v, %v", s.Phase, err)
		}
	})
}

// A store that lost its data counts revisions anew: a newer version is news all
// the same.
func TestNewVersionOfALowerRevisionIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{store: fusebox.NewMemory(), told: make(chan fusebox.State)}
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil), Store: store})
		c := circuit(t, b, "model/a")
		for range 10 {
			succeed(t, c)
		}
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		store.told <- fusebox.State{Phase: fusebox.Open, Version: 1, Revision: 1, Since: now, Until: now.Add(time.Minute), Policy: c.Policy()}
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
	})
}

// What was sent may have arrived although no answer came: it is sent again as it
// was, so that the store can tell.
func TestReportWhoseAnswerIsLostIsSentAgainUnderItsIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		store.set(func(f *faultyStore) { f.mute = true })
		for range 6 {
			succeed(t, c)
		}
		if err := mine.Flush(t.Context()); err == nil {
			t.Fatal("the answer was not lost")
		}
		for range 5 { // not to be added to what may have arrived
			succeed(t, c)
		}
		fail(t, c, 1)
		time.Sleep(3 * time.Second)
		store.set(func(f *faultyStore) { f.mute = false })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if err := mine.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls := map[fusebox.EventID]int{}
		for _, e := range store.sent {
			n := max(e.N, 1)
			if known, again := calls[e.ID]; e.ID.From == "" || again && known != n {
				t.Errorf("%d calls under %v, %d before", n, e.ID, known)
			}
			calls[e.ID] = n
		}
		total := 0
		for _, n := range calls {
			total += n
		}
		if total != 12 || len(store.sent) <= len(calls) {
			t.Errorf("%d calls under %d IDs in %d records, want 12 calls, and some sent again", total, len(calls), len(store.sent))
		}
	})
}

// A store whose clock was never compared, because it was down, gets times on its
// own clock all the same.
func TestFirstReportAfterAnOutageIsOnTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			memory := fusebox.NewMemory()
			memory.Clock = func() time.Time { return time.Now().Add(ahead) }
			store := &faultyStore{store: memory, failed: errors.New("down")}
			cfg := fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{fusebox.Count(3, time.Minute)} }), Store: store}
			mine := newBox(t, cfg)
			cfg.Store = memory
			other := circuit(t, newBox(t, cfg), "model/a")
			fail(t, circuit(t, mine, "model/a"), 2)
			synctest.Wait()
			store.set(func(f *faultyStore) { f.failed = nil })
			time.Sleep(3 * time.Second)
			fail(t, other, 1)
			synctest.Wait()
			wantPhase(t, other, fusebox.Open)
		})
	}
}

func TestProbeGrantedTooLateGoesToTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		fail(t, c, 3)
		synctest.Wait()
		time.Sleep(31 * time.Second)
		store.set(func(f *faultyStore) { f.delay = 100 * time.Millisecond })
		if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrProbing) {
			t.Fatalf("have %v, want ErrProbing", err)
		}
		time.Sleep(time.Second)
		p, err := c.Allow(t.Context())
		if err != nil || !p.Probe() {
			t.Fatalf("want the probe, have %v", err)
		}
		p.Done(fusebox.Result{})
	})
}

// Without a longer wait a caller that comes once in ten minutes would be
// refused for ever: each grant lapses before its next call.
func TestRareCallerOfASlowStoreGetsItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		fail(t, c, 3)
		synctest.Wait()
		store.set(func(f *faultyStore) { f.delay = 100 * time.Millisecond })
		for range 10 {
			time.Sleep(10 * time.Minute)
			if p, err := c.Allow(t.Context()); err == nil {
				p.Done(fusebox.Result{})
				return
			}
		}
		t.Error("ten calls were refused")
	})
}

func TestStoreClockThatDiffersRules(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := fusebox.NewMemory()
			store.Clock = func() time.Time { return time.Now().Add(ahead) }
			b := newBox(t, fusebox.Config{Policy: onePolicy(nil), Store: store})
			c := circuit(t, b, "model/a")
			fail(t, c, 3)
			synctest.Wait()
			time.Sleep(29 * time.Second)
			if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrOpen) {
				t.Errorf("%v ahead: early: %v", ahead, err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if p, err := c.Allow(t.Context()); err != nil || !p.Probe() {
				t.Errorf("%v ahead: want a probe, have %v", ahead, err)
			}
		})
	}
}

// A process that starts while a circuit is open must not count that as news:
// alarms on the frequency of opening would go off at every deploy.
func TestWhatHappenedBeforeIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		cfg := fusebox.Config{Policy: onePolicy(nil), Store: store}
		fail(t, circuit(t, newBox(t, cfg), "model/a"), 3)
		synctest.Wait()
		var heard []fusebox.Transition
		b := newBox(t, cfg)
		b.OnTransition(func(tr fusebox.Transition) { heard = append(heard, tr) })
		c := circuit(t, b, "model/a")
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		if len(heard) > 0 {
			t.Errorf("heard of %+v", heard)
		}
		c.Reset("mended")
		synctest.Wait()
		if len(heard) != 1 || heard[0].To != fusebox.Closed {
			t.Errorf("heard %+v, want the reset", heard)
		}
	})
}
