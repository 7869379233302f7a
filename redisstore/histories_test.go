//go:build unix

package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fusebox-go/fusebox"
)

// busy opens and closes within milliseconds, so that a short history sees all
// of a circuit's life.
func busy() fusebox.Policy {
	p := coolDown(5 * time.Millisecond)
	p.Probe.Lease = 20 * time.Millisecond
	return p
}

// behind is by how much the reports of a history lie in the past, so that the
// store takes their times as they are.
const behind = 10 * time.Second

// actor is a worker whose reports make a history. It knows what it was told
// last, as a box does.
type actor struct {
	*history
	worker   int
	store    *Store
	random   *rand.Rand
	patience time.Duration
	newest   fusebox.EventID
	state    fusebox.State
	lease    string         // of the probe that it makes
	lost     *fusebox.State // what it knew, where the store had lost it
	gaveUp   bool           // once is enough: what nobody knows makes the check long
}

// act makes one report and takes in the answer. One whose answer does not come
// is sent again under its IDs, as a box does, or it is as if its reporter had
// died: who goes on is another.
func (a *actor) act(t *testing.T) {
	events := a.next()
	for i := range events {
		a.newest.N++
		events[i].ID = a.newest
	}
	for first := a.now(); t.Context().Err() == nil; {
		call := applied{span: span{begin: a.begin()}, worker: a.worker, events: events}
		call.waited = call.begin - first
		ctx, cancel := context.WithTimeout(t.Context(), a.patience)
		call.state, call.err = a.store.Apply(ctx, name, a.policy, events...)
		cancel()
		call.again = call.err != nil && (a.gaveUp || a.random.IntN(2) == 0)
		a.add(call)
		switch {
		case call.err == nil:
			a.learn(call.state, events)
			return
		case !call.again:
			a.gaveUp, a.newest, a.lease = true, fusebox.EventID{From: newToken()}, ""
			return
		}
	}
}

func (a *actor) learn(s fusebox.State, events []fusebox.Event) {
	if a.lost = nil; s.Version < a.state.Version {
		known := a.state
		a.lost = &known
	}
	a.state = s
	for _, e := range events {
		if e.Action == fusebox.ActionGranted && s.HasLease(e.Lease) {
			a.lease = e.Lease
		}
	}
}

// next is what the actor does now.
func (a *actor) next() []fusebox.Event {
	at := time.Now().Add(-behind)
	if a.lost != nil {
		return []fusebox.Event{{Kind: fusebox.KindCheckpoint, At: at, State: a.lost}}
	}
	failure := fusebox.Event{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassServer, Admitted: true, Version: a.state.Version}
	success := failure
	success.Outcome, success.Class = fusebox.Success, ""
	if a.lease != "" {
		return a.probing(failure, success)
	}
	switch a.random.IntN(12) {
	case 0:
		return nil
	case 1:
		return a.operate(at)
	}
	switch d := a.state.Decide(at); {
	case d.Probe:
		return []fusebox.Event{{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: newToken(), At: at, Until: at.Add(a.policy.Probe.Lease)}}
	case d.Go:
		return []fusebox.Event{success, failure, failure}[a.random.IntN(2) : 2+a.random.IntN(2)]
	default:
		return []fusebox.Event{{Kind: fusebox.KindDenied, At: at, Reason: d.Reason, N: 1 + a.random.IntN(3)}}
	}
}

// probing renews the probe's lease, gives it back, or settles it: in time or not.
func (a *actor) probing(failure, success fusebox.Event) []fusebox.Event {
	lease := a.lease
	a.lease = ""
	failure.Lease, success.Lease = lease, lease
	switch a.random.IntN(6) {
	case 0:
		a.lease = lease
		return []fusebox.Event{{Kind: fusebox.KindLease, Action: fusebox.ActionRenewed, Lease: lease, At: failure.At, Until: failure.At.Add(a.policy.Probe.Lease)}}
	case 1:
		return []fusebox.Event{{Kind: fusebox.KindLease, Action: fusebox.ActionReleased, Lease: lease, At: failure.At}}
	case 2, 3:
		return []fusebox.Event{failure}
	}
	return []fusebox.Event{success}
}

// operate is what an operator does.
func (a *actor) operate(at time.Time) []fusebox.Event {
	switch a.random.IntN(4) {
	case 0:
		return []fusebox.Event{{Kind: fusebox.KindTrip, At: at, Cause: "maintenance"}}
	case 1:
		return []fusebox.Event{{Kind: fusebox.KindReset, At: at, Cause: "mended"}}
	case 2:
		return []fusebox.Event{{Kind: fusebox.KindThrottle, At: at, Until: at.Add(2 * time.Millisecond)}}
	}
	return []fusebox.Event{{Kind: fusebox.KindHold, Action: fusebox.ActionHeld, Phase: fusebox.Open, At: at, Until: at.Add(2 * time.Millisecond)}}
}

// Histories of real runs make sense, whatever happens meanwhile to the server
// and to the way there.
func TestHistories(t *testing.T) {
	const actors, reports, faults = 4, 40, 6
	for _, fault := range []struct {
		name     string
		patience time.Duration // of one Apply
		strike   func(s *server, p *proxy, h *history)
	}{
		{"nothing happens", patience, func(*server, *proxy, *history) {}},
		{"the lock is lost under its holder", patience, func(s *server, _ *proxy, _ *history) { s.do("DEL", circuitKey("lock")) }},
		{"scripts are forgotten", patience, func(s *server, _ *proxy, _ *history) { s.do("SCRIPT", "FLUSH") }},
		{"connections break", patience, func(s *server, _ *proxy, _ *history) { s.do("CLIENT", "KILL", "TYPE", "normal") }},
		{"answers break off in the middle", patience, func(_ *server, p *proxy, _ *history) { p.mend(); p.breakAfter(5000) }},
		{"the server is stopped for longer than a lock lasts", 2 * lockTime, func(s *server, _ *proxy, h *history) {
			failed := h.failed()
			s.stop()
			eventually(s.TB, "a report gets no answer", func() bool { return h.failed() > failed })
			s.wake()
		}},
		{"the server is killed with its data", patience, func(s *server, _ *proxy, h *history) { h.crash(s.kill); s.start() }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s := startServer(t)
			p := startProxy(t, s.host())
			h := newHistory(busy())
			var acting sync.WaitGroup
			for i := range actors {
				a := &actor{history: h, worker: i, store: openStore(t, p.url()), patience: fault.patience,
					random: rand.New(rand.NewPCG(1, uint64(i))), newest: fusebox.EventID{From: newToken()}}
				acting.Go(func() {
					for range reports {
						a.act(t)
					}
				})
			}
			for i := range faults {
				eventually(t, "reports are made", func() bool { return h.calls() >= actors*reports*(i+1)/(faults+1) })
				fault.strike(s, p, h)
			}
			acting.Wait()
			h.sound(t)
		})
	}
}

// The check of a history can fail: one that is true is made false in one place
// at a time.
func TestHistoryThatIsBroken(t *testing.T) {
	const second, verdict, last = 4, 5, 6 // of the reports below
	store := openStore(t, startServer(t).url())
	record := func() *history {
		h := newHistory(busy())
		circuit := newToken() // the model has one name for all
		at := time.Now().Add(-behind)
		failure := fusebox.Event{Outcome: fusebox.Failure, Class: fusebox.ClassServer}
		ask := func(token string) fusebox.Event {
			return fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: token, Until: at.Add(time.Hour)}
		}
		for i, events := range [][]fusebox.Event{{failure}, {failure}, {failure}, {ask("first")}, {ask("second")},
			{{Outcome: fusebox.Success, Admitted: true, Version: 2, Lease: "first"}}, nil} {
			for j := range events {
				events[j].At = at.Add(time.Duration(i) * time.Second)
				events[j].ID = fusebox.EventID{From: circuit, N: uint64(i) + 1}
			}
			call := applied{span: span{begin: h.begin()}, events: events}
			call.state, call.err = store.Apply(t.Context(), "model/"+circuit, h.policy, events...)
			if call.err != nil {
				t.Fatal(call.err)
			}
			h.add(call)
		}
		return h
	}
	if h := record(); h.check() != porcupine.Ok || h.applied[last].state.Phase != fusebox.Closed {
		t.Fatalf("what happened is called impossible, or is not what was meant:\n%s", h)
	}
	for what, spoil := range map[string]func(calls []applied){
		"a grant is doubled": func(calls []applied) {
			s := &calls[second].state
			s.Leases = append(s.Leases[:1:1], fusebox.Lease{Token: "second", At: calls[second].events[0].At, Until: s.Leases[0].Until})
		},
		"a grant goes to another": func(calls []applied) {
			calls[second-1].state.Leases[0].Token = "second"
		},
		"a verdict without a lease counts":    func(calls []applied) { calls[verdict].events[0].Lease = "second" },
		"a verdict of another version counts": func(calls []applied) { calls[verdict].events[0].Version = 1 },
		"a failure is lost":                   func(calls []applied) { calls[1].state = calls[0].state },
		"a failure counts twice":              func(calls []applied) { calls[1].state = calls[2].state },
		"an old state is told":                func(calls []applied) { calls[last].state = calls[verdict-1].state },
		"a report takes effect before it is sent": func(calls []applied) {
			calls[verdict].begin, calls[verdict].end = calls[last].end+1, calls[last].end+2
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := record()
			spoil(h.applied)
			if result := h.check(); result != porcupine.Illegal {
				t.Errorf("the check says %s to\n%s", result, h)
			}
		})
	}
}

// A report without an answer may have arrived or not, and a crash undoes what
// was answered: neither is called impossible.
func TestHistoryOfWhatNobodyKnows(t *testing.T) {
	for _, c := range []struct {
		name     string
		answered bool // the report
		crash    bool // then
		counts   bool // as it is told in the end
		want     porcupine.CheckResult
	}{
		{"no answer, and it had arrived", false, false, true, porcupine.Ok},
		{"no answer, and it had not", false, false, false, porcupine.Ok},
		{"answered, and a crash undid it", true, true, false, porcupine.Ok},
		{"answered, and gone", true, false, false, porcupine.Illegal},
		{"answered, and a crash did not undo it", true, true, true, porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(busy())
			failure := fusebox.Event{At: time.Now().Add(-behind), Outcome: fusebox.Failure, ID: fusebox.EventID{From: "a", N: 1}}
			without := fusebox.Fold(h.policy, fusebox.State{}, fusebox.Event{Kind: fusebox.KindStart, Circuit: name})
			with := h.fold(fusebox.State{}, failure)
			report := applied{span: span{begin: h.begin()}, events: []fusebox.Event{failure}, state: with}
			if !c.answered {
				report.err = context.DeadlineExceeded
			}
			h.add(report)
			if c.crash {
				h.crash(func() {})
			}
			told := without
			if c.counts {
				told = with
			}
			h.add(applied{span: span{begin: h.begin()}, state: told})
			if got := h.check(); got != c.want {
				t.Errorf("the check says %s to\n%s", got, h)
			}
		})
	}
}
