package fusebox_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// hosts returns the circuit model/a of a bad host, on a store that can be made
// faulty, and that of a good host, which has worked, on the same store.
func hosts(t *testing.T, p fusebox.Policy) (store *faultyStore, b *fusebox.Box, bad, good *fusebox.Circuit) {
	t.Helper()
	memory := fusebox.NewMemory()
	store = &faultyStore{store: memory}
	cfg := fusebox.Config{Policy: func(string) fusebox.Policy { return p }, Store: memory, Worker: "good:1", Report: time.Second}
	good = circuit(t, newBox(t, cfg), "model/a")
	succeed(t, good)
	time.Sleep(2 * time.Second)
	synctest.Wait()
	cfg.Store, cfg.Worker, cfg.MaxCircuits = store, "bad:1", 2
	b = newBox(t, cfg)
	return store, b, circuit(t, b, "model/a"), good
}

func TestI17AHostThatWasCutOffDoesNotOpenTheFleetWhenItIsBack(t *testing.T) {
	for name, cutOff := range map[string]func(*testing.T, *faultyStore, *fusebox.Circuit, *fusebox.Circuit){
		"so long that the others were not live to it": func(t *testing.T, store *faultyStore, bad, good *fusebox.Circuit) {
			store.set(func(f *faultyStore) { f.failed = errors.New("down") })
			bad.Throttle(time.Now(), "anything that is reported")
			for range 15 {
				succeed(t, good)
				time.Sleep(time.Minute)
			}
			fail(t, bad, 2)
			synctest.Wait()
			wantPhase(t, bad, fusebox.Open)
		},
		"with probes of its own that failed": func(t *testing.T, store *faultyStore, bad, good *fusebox.Circuit) {
			fail(t, good, 1)
			fail(t, bad, 1)
			synctest.Wait()
			wantPhase(t, good, fusebox.Open)
			store.set(func(f *faultyStore) { f.failed = errors.New("down") })
			bad.Throttle(time.Now(), "anything that is reported")
			for range 3 {
				time.Sleep(100 * time.Second)
				fail(t, bad, 1)
			}
			succeed(t, good) // its probe
			synctest.Wait()
			wantPhase(t, good, fusebox.Closed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, _, bad, good := hosts(t, quorum(fusebox.Streak(2)))
				cutOff(t, store, bad, good)
				store.set(func(f *faultyStore) { f.failed = nil })
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if s := good.Status(); s.Phase != fusebox.Closed {
					t.Fatalf("I17: what one host came to by itself opened the circuit for all: %v, version %d", s.Phase, s.Version)
				}
				if have, want := bad.Status().Version, good.Status().Version; have != want {
					t.Errorf("two realities: versions %d and %d", have, want)
				}
			})
		})
	}
}

// Listeners hear of what the fleet does next, whatever a process came to by
// itself meanwhile.
func TestI1AHostThatWasCutOffIsToldOfTheFleetsNextTransition(t *testing.T) {
	for _, name := range []string{"later", "from the start"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, b, bad, good := hosts(t, quorum(fusebox.Streak(2)))
				var told []fusebox.Transition
				b.OnTransition(func(tr fusebox.Transition) { told = append(told, tr) })
				store.set(func(f *faultyStore) { f.failed = errors.New("down") })
				bad.Throttle(time.Now(), "anything that is reported")
				if name == "from the start" {
					synctest.Wait()
					bad = circuit(t, b, "model/b")
					succeed(t, good)
				}
				time.Sleep(15 * time.Minute)
				succeed(t, good)
				fail(t, bad, 2)
				synctest.Wait()
				wantPhase(t, bad, fusebox.Open)
				time.Sleep(2 * time.Second)
				if name == "from the start" { // another host has used it meanwhile
					other := fusebox.Event{At: time.Now(), Outcome: fusebox.Success, Worker: "good:1"}
					if _, err := store.store.Apply(t.Context(), "model/b", bad.Policy(), other); err != nil {
						t.Fatal(err)
					}
				}
				store.set(func(f *faultyStore) { f.failed = nil })
				time.Sleep(5 * time.Second)
				if _, err := store.store.Apply(t.Context(), bad.Name(), bad.Policy(), fusebox.Event{Kind: fusebox.KindTrip, At: time.Now(), Cause: "for all"}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				from := fusebox.Closed
				for i, tr := range told {
					if tr.Host != "" {
						continue
					}
					if tr.From != from {
						t.Errorf("I1: transition %d begins at %v, want %v", i, tr.From, from)
					}
					from = tr.To
				}
				if len(told) < 3 || told[len(told)-1].Cause != "operator: for all" {
					t.Errorf("I1: told %+v", told)
				}
			})
		})
	}
}

func TestAProbeThatIsNotNeededAnyMoreGoesAsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := fusebox.NewMemory()
		deaf := &faultyStore{store: memory, told: make(chan fusebox.State)}
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil), Store: deaf}), "model/a")
		fail(t, c, 3)
		synctest.Wait()
		time.Sleep(time.Minute)
		other := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil), Store: memory}), "model/a")
		succeed(t, other)
		synctest.Wait()
		wantPhase(t, other, fusebox.Closed)
		wantPhase(t, c, fusebox.Open) // as far as it knows
		if _, err := c.Allow(t.Context()); err != nil {
			t.Errorf("closed, and refused: %v", err)
		}
	})
}

// What a host counted while it was cut off is not forgotten when the store has
// lost what was before.
func TestAStoreThatLostItsDataLearnsWhatAHostCountedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, bad, good := hosts(t, quorum(fusebox.Streak(3)))
		fail(t, bad, 1)
		synctest.Wait()
		store.set(func(f *faultyStore) { f.failed = errors.New("down") })
		fail(t, bad, 1)
		synctest.Wait()
		empty := fusebox.NewMemory()
		store.set(func(f *faultyStore) { f.failed, f.store = nil, empty })
		time.Sleep(2 * time.Second)
		fail(t, bad, 1)
		synctest.Wait()
		wantPhase(t, bad, fusebox.Open)
		wantPhase(t, good, fusebox.Closed)
		s, err := empty.Apply(t.Context(), "model/a", fusebox.Policy{})
		if err != nil || s.Phase != fusebox.Closed || s.For("bad:2").Phase != fusebox.Open {
			t.Errorf("the store knows %v, for the host %v, %v", s.Phase, s.For("bad:2").Phase, err)
		}
	})
}

func TestI19ACircuitIsKeptWhileItsHostsOwnIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b, bad, _ := hosts(t, quorum(fusebox.Count(2, 10*time.Second)))
		store.set(func(f *faultyStore) { f.failed = errors.New("down") })
		fail(t, bad, 2)
		time.Sleep(2 * time.Second)
		store.set(func(f *faultyStore) { f.failed = nil })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		wantPhase(t, bad, fusebox.Open)
		circuit(t, b, "model/b")
		circuit(t, b, "model/c") // in place of b
		store.set(func(f *faultyStore) { f.failed = errors.New("down") })
		bad.Throttle(time.Now(), "anything that is reported")
		synctest.Wait()
		if _, err := bad.Allow(t.Context()); err == nil {
			t.Error("I19: a circuit that refuses calls was evicted")
		}
		store.set(func(f *faultyStore) { f.failed = nil })
	})
}

func TestListenersHearThatAHostsOwnCircuitCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quorum(fusebox.Streak(2))
		_, b, bad, _ := hosts(t, p)
		var told []fusebox.Phase
		b.OnTransition(func(tr fusebox.Transition) { told = append(told, tr.To) })
		fail(t, bad, 2)
		synctest.Wait()
		wantPhase(t, bad, fusebox.Open)
		p.Quorum, p.Loaded = 1, time.Now()
		if err := b.SetPolicies(func(string) fusebox.Policy { return p }); err != nil {
			t.Fatal(err)
		}
		succeed(t, bad)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(told, []fusebox.Phase{fusebox.Open, fusebox.Closed}) {
			t.Errorf("told %v, want open and closed", told)
		}
	})
}

func TestTheStatusCountsRefusalsOfAHostsOwnCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, bad, _ := hosts(t, quorum(fusebox.Streak(2)))
		fail(t, bad, 2)
		synctest.Wait()
		for range 5 {
			if _, err := bad.Allow(t.Context()); err == nil {
				t.Fatal("let through")
			}
		}
		want(t, "denied", bad.Status().Denied, 5)
	})
}

func TestARepeatedCallMayGoOnceItsHostsOwnCircuitHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, bad, _ := hosts(t, quorum(fusebox.Streak(3)))
		run := b.Run("job")
		for range 3 {
			p, err := run.Allow(t.Context(), bad, "same")
			if err != nil {
				t.Fatal(err)
			}
			p.Done(fusebox.Result{Outcome: fusebox.Failure, Err: errors.New("broken")})
		}
		synctest.Wait()
		wantPhase(t, bad, fusebox.Open)
		time.Sleep(2 * time.Minute)
		succeed(t, bad)
		synctest.Wait()
		wantPhase(t, bad, fusebox.Closed)
		if _, err := run.Allow(t.Context(), bad, "same"); err != nil {
			t.Errorf("the circuit has recovered since, and the call is refused: %v", err)
		}
	})
}
