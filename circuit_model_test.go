package fusebox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

// call is one that a circuit let through and that has not ended yet.
type call struct {
	permit  fusebox.Permit
	version uint64
	lease   string // the oracle's name of the probe's slot
	start   time.Time
}

// drive uses a circuit as its callers and its operator do, and tells the oracle
// of every call by itself: what the circuit counts without a lock, in runs and
// epochs, must come to the same.
type drive struct {
	c      *fusebox.Circuit
	o      *oracle
	lease  time.Duration
	calls  []call
	probes int
	story  []string
}

func now() time.Time { return time.Now().UTC().Round(0) }

func (d *drive) step(t *rapid.T) string {
	switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
	case what < 5:
		return "allow: " + d.allow(t)
	case what < 10 && len(d.calls) > 0:
		return "done: " + d.done(t)
	case what < 12:
		n := rapid.IntRange(1, 6).Draw(t, "calls that work")
		for range n {
			if d.allow(t) != "go" {
				break
			}
			d.end(t, len(d.calls)-1, fusebox.Result{})
		}
		return fmt.Sprint("calls that work: ", n)
	case what < 17:
		return d.sleep(t)
	case what == 17:
		return "last resort: " + d.lastResort(t)
	}
	return d.operate(t)
}

func (d *drive) allow(t *rapid.T) string {
	want := d.o.decide(now())
	p, err := d.c.Allow(t.Context())
	return d.admitted(t, want, p, err)
}

// admitted compares an answer with the oracle's, and tells the oracle of it.
func (d *drive) admitted(t *rapid.T, want fusebox.Decision, p fusebox.Permit, err error) string {
	if denial := fusebox.AsDenial(err); denial != nil {
		if want.Go || want.Probe || denial.Reason() != want.Reason || denial.RetryAfterAt(now()) != want.RetryAfter {
			t.Fatalf("after %q: refused, %s for %v; want %+v", d.story, denial.Reason(), denial.RetryAfterAt(now()), want)
		}
		d.o.step(fusebox.Event{Kind: fusebox.KindDenied, At: now(), Reason: denial.Reason()})
		return "refused, " + string(denial.Reason())
	}
	if err != nil || !want.Go && !want.Probe || p.Probe() != want.Probe {
		t.Fatalf("after %q: allowed, a probe: %v, %v; want %+v", d.story, p.Probe(), err, want)
	}
	made := call{permit: p, start: now()}
	if want.Probe {
		made.lease = d.slot(false)
	}
	made.version = d.o.version
	d.calls = append(d.calls, made)
	return "go"
}

// slot has the oracle grant a probe's slot.
func (d *drive) slot(resort bool) string {
	d.probes++
	e := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: now(), Lease: fmt.Sprint("probe-", d.probes), LastResort: resort}
	if d.lease > 0 {
		e.Until = e.At.Add(d.lease)
	}
	d.o.step(e)
	return e.Lease
}

func (d *drive) lastResort(t *rapid.T) string {
	decision := d.o.decide(now())
	if d.o.phase != fusebox.Open || d.o.resortUsed || decision.Reason == fusebox.ReasonHeld || decision.Reason == fusebox.ReasonThrottled || d.o.held(now()) {
		return "not now"
	}
	p, err := d.c.LastResort(t.Context())
	if err != nil || !p.Probe() {
		t.Fatalf("no last resort: %v", err)
	}
	start := now()
	lease := d.slot(true)
	d.calls = append(d.calls, call{permit: p, version: d.o.version, lease: lease, start: start})
	return "granted"
}

func (d *drive) done(t *rapid.T) string {
	r := fusebox.Result{
		Outcome: rapid.SampledFrom([]fusebox.Outcome{fusebox.Failure, fusebox.Failure, fusebox.Failure, fusebox.Success, fusebox.Success,
			fusebox.Rejected, fusebox.Throttled, fusebox.Canceled}).Draw(t, "outcome"),
		Run: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "run"), Call: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "call"),
	}
	switch r.Outcome {
	case fusebox.Failure:
		r.Class = rapid.SampledFrom([]fusebox.Class{fusebox.ClassServer, fusebox.ClassServer, fusebox.ClassAuth}).Draw(t, "class")
	case fusebox.Throttled:
		r.NotBefore = rapid.SampledFrom([]time.Time{{}, now().Add(3 * time.Second)}).Draw(t, "not before")
	}
	i := rapid.IntRange(0, len(d.calls)-1).Draw(t, "which call")
	return d.end(t, i, r)
}

// end ends a call; a probe's is ended twice, which must make no difference.
func (d *drive) end(t *rapid.T, i int, r fusebox.Result) string {
	made := d.calls[i]
	d.calls = append(d.calls[:i:i], d.calls[i+1:]...)
	made.permit.Done(r)
	if made.lease != "" {
		made.permit.Done(fusebox.Result{Outcome: fusebox.Failure})
	}
	d.o.step(fusebox.Event{
		At: now(), Outcome: r.Outcome, Class: r.Class, Until: r.NotBefore, Run: r.Run, Call: r.Call, Elapsed: now().Sub(made.start),
		Admitted: true, Version: made.version, Lease: made.lease, Late: made.version != d.o.version || made.lease != "" && !d.holds(made.lease),
	})
	return fmt.Sprint(r.Outcome, " ", r.Class, " of version ", made.version)
}

func (d *drive) holds(lease string) bool {
	return slices.ContainsFunc(d.o.leases, func(l fusebox.Lease) bool { return l.Token == lease })
}

func (d *drive) sleep(t *rapid.T) string {
	h := history{o: d.o, now: now()}
	h.advance(t)
	time.Sleep(h.now.Sub(now()))
	synctest.Wait() // for the timers of this instant
	return "sleep"
}

func (d *drive) operate(t *rapid.T) string {
	e := fusebox.Event{At: now(), Cause: "x"}
	until := now().Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "s")) * time.Second)
	word := rapid.SampledFrom([]string{"trip", "reset", "hold open", "hold closed", "lift", "lift", "throttle"}).Draw(t, "operator")
	switch word {
	case "trip":
		e.Kind = fusebox.KindTrip
		d.c.Trip("x")
	case "reset":
		e.Kind = fusebox.KindReset
		d.c.Reset("x")
	case "hold open", "hold closed":
		e.Kind, e.Action, e.Until = fusebox.KindHold, fusebox.ActionHeld, until
		if word == "hold open" {
			e.Phase = fusebox.Open
		}
		if err := d.c.Hold(e.Phase, until, "x"); err != nil {
			t.Fatal(err)
		}
	case "lift":
		e.Kind, e.Action = fusebox.KindHold, fusebox.ActionLifted
		d.c.Lift("x")
	case "throttle":
		e.Kind, e.Until = fusebox.KindThrottle, until
		d.c.Throttle(until, "x")
	}
	d.o.step(e)
	return word
}

// view is what must be alike.
func (d *drive) view() string {
	o := d.o.afterHold(now())
	return fmt.Sprintf("%v %d since %v, until %v, %d refused, %d denied, %d failed probes, %d passed, %d leases, throttled until %v, count %d, %+v",
		o.phase, o.version, o.since, o.until, o.refused, o.denied, o.failedProbes, o.passed, len(o.leases), o.throttled, o.count(now()), o.decide(now()))
}

func viewOf(s fusebox.State) string {
	s = fusebox.Fold(fusebox.Policy{}, s, fusebox.Event{Kind: "look", At: now()})
	return fmt.Sprintf("%v %d since %v, until %v, %d refused, %d denied, %d failed probes, %d passed, %d leases, throttled until %v, count %d, %+v",
		s.Phase, s.Version, utc(s.Since), utc(s.Until), s.Refused, s.Denied, s.FailedProbes, s.Passed, len(s.Leases), utc(s.Throttled), s.CountAt(now()), s.Decide(now()))
}

func utc(t time.Time) time.Time { return t.UTC().Round(0) }

// TestCircuitAgreesWithOracle drives live circuits, with and without somebody
// who listens to their evidence, at random.
func TestCircuitAgreesWithOracle(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded %v", recorded), func(t *testing.T) {
			driven := 0
			for driven < 300 { // a bubble's day, after which rapid ends, is short
				synctest.Test(t, func(t *testing.T) {
					inBubble := struct{ testing.TB }{t} // rapid would ask a *testing.T for its deadline, which a bubble has not
					check(inBubble, 300, func(t *rapid.T) {
						driven++
						driveCircuit(t, recorded)
					})
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

func driveCircuit(t *rapid.T, recorded bool) {
	p := drawPolicy(t)
	p.cooldown.Jitter = 0
	p.probe.Lease = rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(t, "lease")
	time.Sleep(now().Truncate(time.Minute).Add(time.Minute).Sub(now())) // windows are aligned to the epoch, and so is each history
	box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return p.policy() }})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	time.Sleep(time.Nanosecond) // on a box's clock no call starts at 0
	var log []fusebox.Event
	if recorded {
		defer box.OnEvidence(func(e fusebox.Event) { log = append(log, e) })()
	}
	c, err := box.Circuit("model/a/b")
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{c: c, o: &oracle{p: p}, lease: p.probe.Lease}
	for i := range rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "steps") {
		d.story = append(d.story, d.step(t))
		if have := d.c.Status(); have.Version != d.o.version || have.Denied != d.o.denied {
			t.Fatalf("after %q: version %d, %d denied; want %d, %d", d.story, have.Version, have.Denied, d.o.version, d.o.denied)
		}
		if i%4 != 0 { // looking closely collects what was counted without the lock
			continue
		}
		if want, have := d.view(), viewOf(d.c.State()); have != want {
			t.Fatalf("after %q\nunder %v\nhave %s\nwant %s", d.story, p.policy().Trip, have, want)
		}
	}
	if err := box.Flush(context.Background()); err != nil || !recorded {
		return
	}
	final := d.c.State()
	again := fusebox.State{Seed: final.Seed, Policy: p.policy()}
	for _, e := range log {
		again = fusebox.Fold(p.policy(), again, e)
	}
	if have, want := stateText(again), stateText(final); have != want {
		t.Fatalf("I16: the evidence folded again\nhave %s\nwant %s", have, want)
	}
}
