package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

func testGuard(store fusebox.Store, name string) *Guard {
	p := fusebox.DefaultPolicy("session")
	p.Trip = []fusebox.Trip{fusebox.Streak(2)}
	p.Cooldown = fusebox.Cooldown{After: time.Hour, Growth: 1}
	return &Guard{Store: store, Circuit: name, Policy: p, Worker: "test"}
}

var crash = fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Err: errors.New("exit status 1")}

func open(t *testing.T, g *Guard) {
	t.Helper()
	for range 2 {
		ticket, err := g.Ask(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ticket.Report(t.Context(), crash, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Ask(t.Context(), ""); !errors.Is(err, fusebox.ErrOpen) {
		t.Fatalf("have %v, want ErrOpen", err)
	}
}

func TestGuardRefusesAndProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGuard(fusebox.NewMemory(), "session/a")
		open(t, g)
		time.Sleep(time.Hour)
		probe, err := g.Ask(t.Context(), "")
		if err != nil || !probe.Probe() {
			t.Fatalf("want a probe, have %v", err)
		}
		if _, err := g.Ask(t.Context(), ""); !errors.Is(err, fusebox.ErrProbing) {
			t.Fatalf("have %v, want ErrProbing", err)
		}
		if s, err := probe.Report(t.Context(), fusebox.Result{}, time.Minute); err != nil || s.Phase != fusebox.Closed {
			t.Fatalf("%v, %v", s.Phase, err)
		}
	})
}

// A session runs for hours; the lease of its probe is half an hour.
func TestProbeThatRunsLongKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGuard(fusebox.NewMemory(), "session/a")
		open(t, g)
		time.Sleep(time.Hour)
		probe, err := g.Ask(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go probe.KeepAlive(ctx)
		time.Sleep(5 * time.Hour)
		if _, err := g.Ask(t.Context(), ""); !errors.Is(err, fusebox.ErrProbing) {
			t.Errorf("another took the slot of a probe that lives: %v", err)
		}
		stop()
		synctest.Wait()
		time.Sleep(time.Hour)
		if next, err := g.Ask(t.Context(), ""); err != nil || !next.Probe() {
			t.Errorf("the slot of a probe that is gone did not come back: %v", err)
		}
		if s, err := probe.Report(t.Context(), fusebox.Result{}, 6*time.Hour); err != nil || s.Phase != fusebox.HalfOpen {
			t.Errorf("a void report decided: %v, %v", s.Phase, err)
		}
	})
}

func TestWaitStartsWhenTheCircuitLets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := testGuard(fusebox.NewMemory(), "session/a")
		open(t, g)
		began := time.Now()
		told := 0
		ticket, err := g.Wait(t.Context(), "", func(*fusebox.Denial) { told++ })
		if err != nil || !ticket.Probe() {
			t.Fatalf("want a probe, have %v", err)
		}
		if waited := time.Since(began); waited < time.Hour || waited > time.Hour+time.Minute || told < 60 {
			t.Errorf("waited %v, told %d times", waited, told)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Wait(ctx, "", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("have %v, want context.Canceled", err)
		}
	})
}

func TestObservedGuardRefusesNothing(t *testing.T) {
	g := testGuard(fusebox.NewMemory(), "session/a")
	open(t, g)
	g.Observe = true
	if _, err := g.Ask(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	s, err := g.Store.Apply(t.Context(), "session/a", fusebox.Policy{})
	if err != nil || s.Denied != 2 {
		t.Errorf("%d refusals are recorded, want the real and the observed one; %v", s.Denied, err)
	}
}

func TestPickTakesTheFirstUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		open(t, testGuard(store, "session/a"))
		healthy := testGuard(store, "session/c")
		healthy.Policy = fusebox.Policy{}
		ticket, err := healthy.Ask(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ticket.Report(t.Context(), fusebox.Result{}, time.Minute); err != nil {
			t.Fatal(err)
		}
		names := []string{"Session/A", "session/b", "session/c"}
		pick := func(p Picker) string {
			p.Store = store
			picked, _, err := p.Pick(t.Context(), names)
			if err != nil || picked == nil {
				t.Fatalf("picked %v, %v", picked, err)
			}
			return picked.Name
		}
		if got := pick(Picker{}); got != "session/b" {
			t.Errorf("picked %s: unknown is usable", got)
		}
		if got := pick(Picker{PreferHealthy: true}); got != "session/c" {
			t.Errorf("picked %s, want the one known to be up", got)
		}
		time.Sleep(time.Hour)
		if got := pick(Picker{Peek: true}); got != "Session/A" {
			t.Errorf("picked %s: its cooldown is over, and names stay as they were given", got)
		}
		if got := pick(Picker{Lease: 10 * time.Minute}); got != "Session/A" {
			t.Errorf("picked %s: looking must not take the slot", got)
		}
		if got := pick(Picker{}); got != "session/b" {
			t.Errorf("picked %s: another has the probe", got)
		}
		// The harness reports without a permit, and settles the slot.
		report := fusebox.Event{At: time.Now(), Outcome: fusebox.Success, Elapsed: 0}
		if s, err := store.Apply(t.Context(), "session/a", fusebox.Policy{}, report); err != nil || s.Phase != fusebox.Closed {
			t.Errorf("%v, %v", s.Phase, err)
		}
	})
}

func TestPickFindsNone(t *testing.T) {
	store := fusebox.NewMemory()
	open(t, testGuard(store, "session/a"))
	p := Picker{Store: store}
	picked, passed, err := p.Pick(t.Context(), []string{"session/a"})
	if picked != nil || err != nil || len(passed) != 1 || passed[0].Denial.Reason() != fusebox.ReasonOpen {
		t.Errorf("picked %v, passed %v, %v", picked, passed, err)
	}
	if s, _ := store.Apply(t.Context(), "session/a", fusebox.Policy{}); s.Denied != 2 {
		t.Errorf("%d refusals, want that of open and of pick", s.Denied)
	}
	if picked, _, err := p.Pick(t.Context(), []string{"../x"}); picked != nil || !errors.Is(err, fusebox.ErrName) {
		t.Errorf("picked %v, %v", picked, err)
	}
}

// silentStore answers to some circuits, and counts how often it was asked of others.
type silentStore struct {
	fusebox.Store
	answers map[string]bool
	failure error
	asked   int
}

func (s *silentStore) Apply(ctx context.Context, circuit string, p fusebox.Policy, events ...fusebox.Event) (fusebox.State, error) {
	if s.answers[circuit] {
		return s.Store.Apply(ctx, circuit, p, events...)
	}
	s.asked++
	return fusebox.State{}, s.failure
}

// pick failed while the store was gone, and so stopped the work that it guards;
// fusebox run went on.
func TestPickGoesOnWithoutTheStore(t *testing.T) {
	memory := fusebox.NewMemory()
	open(t, testGuard(memory, "session/a"))
	names := []string{"session/a", "session/b", "session/c", "session/d"}
	for _, test := range []struct {
		name    string
		answers map[string]bool
		failure error
		want    string
		asked   int
	}{
		{"nothing is read", nil, errors.New("disk full"), "session/a", 4},
		{"it is silent, and not asked again", nil, context.DeadlineExceeded, "session/a", 1},
		{"one is read, and open", map[string]bool{"session/a": true}, errors.New("disk full"), "session/b", 3},
		{"one is read, and usable", map[string]bool{"session/d": true}, errors.New("disk full"), "session/d", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := &silentStore{Store: memory, answers: test.answers, failure: test.failure}
			picked, _, err := (&Picker{Store: store}).Pick(t.Context(), names)
			if picked == nil || picked.Name != test.want {
				t.Fatalf("picked %v, %v; want %s", picked, err, test.want)
			}
			if unread := test.want != "session/d"; unread != errors.Is(err, test.failure) {
				t.Errorf("the error is %v", err)
			}
			if picked.Ticket == nil || picked.Ticket.Probe() {
				t.Error("want a ticket that is no probe's")
			}
			if store.asked != test.asked {
				t.Errorf("asked %d times, want %d", store.asked, test.asked)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	store := &silentStore{failure: context.Canceled}
	if picked, _, err := (&Picker{Store: store}).Pick(gone, names); picked != nil || err == nil {
		t.Errorf("the caller is gone: picked %v, %v", picked, err)
	}
}

// A stuck run went on as sessions: fusebox run asked only its circuit.
func TestAStuckRunStartsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		box, err := fusebox.New(fusebox.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close(t.Context())
		record, err := box.Circuit(fusebox.RunCircuit("job-7"))
		if err != nil {
			t.Fatal(err)
		}
		record.Trip("10 denials ignored")
		if err := box.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := testGuard(store, "session/a")
		_, err = g.Ask(t.Context(), "job-7")
		if !errors.Is(err, fusebox.ErrStuck) || !strings.Contains(err.Error(), "10 denials ignored") || fusebox.AsDenial(err).RetryAfter() <= 0 {
			t.Errorf("have %v, want it stuck, and why", err)
		}
		var recorded []fusebox.Event
		for e, err := range store.Evidence(t.Context(), "session/a", time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			recorded = append(recorded, e)
		}
		if len(recorded) != 1 || recorded[0].Kind != fusebox.KindDenied || recorded[0].Reason != fusebox.ReasonStuck || recorded[0].Run != "job-7" {
			t.Errorf("recorded %+v, want the refusal", recorded)
		}
		watching := *g
		watching.Observe = true
		for name, ask := range map[string]func() (*Ticket, error){
			"another run": func() (*Ticket, error) { return g.Ask(t.Context(), "job-8") },
			"no run":      func() (*Ticket, error) { return g.Ask(t.Context(), "") },
			"observed":    func() (*Ticket, error) { return watching.Ask(t.Context(), "job-7") },
		} {
			if _, err := ask(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		record.Reset("let go")
		if err := box.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Ask(t.Context(), "job-7"); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
}
