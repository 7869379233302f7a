package fusebox_test

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// check runs a property at least so many times, more if -rapid.checks says so.
func check(t testing.TB, times int, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	old := checks.Value.String()
	if n, err := strconv.Atoi(old); err == nil && n < times {
		if err := checks.Value.Set(strconv.Itoa(times)); err != nil {
			t.Fatal(err)
		}
		defer checks.Value.Set(old)
	}
	rapid.Check(t, property)
}

func drawPolicy(t *rapid.T) oraclePolicy {
	within := rapid.SampledFrom([]time.Duration{10 * time.Second, 20 * time.Second, time.Minute})
	rule := rapid.Custom(func(t *rapid.T) oracleRule {
		r := oracleRule{kind: rapid.SampledFrom([]string{"streak", "count", "count", "rate", "slow"}).Draw(t, "rule"), n: rapid.IntRange(1, 5).Draw(t, "n")}
		switch r.kind {
		case "count":
			r.within = within.Draw(t, "within")
			r.of = rapid.SampledFrom([]int{0, r.n, r.n + 1, r.n + 5}).Draw(t, "of")
		case "rate", "slow":
			r.within = within.Draw(t, "within")
			r.percent = rapid.SampledFrom([]int{20, 30, 50, 75, 100}).Draw(t, "percent")
			if r.kind == "slow" {
				r.limit = rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Second}).Draw(t, "limit")
			}
		}
		return r
	})
	p := oraclePolicy{
		rules:      rapid.SliceOfN(rule, 0, 3).Draw(t, "rules"),
		fasterThan: rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second}).Draw(t, "faster than"),
		distinct:   rapid.Bool().Draw(t, "distinct"),
		cooldown: fusebox.Cooldown{
			After:  rapid.SampledFrom([]time.Duration{5 * time.Second, time.Second, time.Minute, 0}).Draw(t, "after"),
			Jitter: rapid.SampledFrom([]float64{0, 0.2, 1}).Draw(t, "jitter"),
			Growth: rapid.SampledFrom([]float64{0, 1, 2, 3}).Draw(t, "growth"),
		},
		probe: fusebox.Probe{
			Concurrent: rapid.IntRange(1, 3).Draw(t, "concurrent"),
			CloseAfter: rapid.IntRange(1, 3).Draw(t, "close after"),
		},
	}
	if rapid.Bool().Draw(t, "auth") {
		p.onClass = []fusebox.Class{fusebox.ClassAuth}
	}
	if rapid.IntRange(0, 3).Draw(t, "max") == 0 {
		p.cooldown.Max = 3 * p.cooldown.After
	}
	if rapid.IntRange(0, 3).Draw(t, "calls") == 0 {
		p.cooldown.Calls, p.cooldown.After, p.cooldown.Max = rapid.IntRange(1, 4).Draw(t, "refusals"), 0, 0
	}
	return p
}

// history makes events one after another, each as a caller, an operator or a
// foreign writer could have made it at that moment.
type history struct {
	o       *oracle
	now     time.Time
	granted []fusebox.Event // every probe's slot ever asked for, with the version it would belong to
}

// mostDisorder is how far behind the newest report another one may come.
const mostDisorder = 4 * time.Second

// advance moves the clock: not at all, a little, far, or to just before, at or
// just after an instant at which something ends.
func (h *history) advance(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "clock") {
	case 0:
	case 1:
		h.now = h.now.Add(time.Nanosecond)
	case 2, 3:
		h.now = h.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
	case 4:
		h.now = h.now.Add(time.Duration(rapid.IntRange(1, 130).Draw(t, "s")) * time.Second)
	case 5:
		ends := h.instants()
		end := ends[rapid.IntRange(0, len(ends)-1).Draw(t, "end")]
		end = end.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "side")))
		h.now = newest(h.now, end)
	}
}

// instants lists when something ends or begins to count no more.
func (h *history) instants() []time.Time {
	all := []time.Time{h.now, h.o.since, h.o.until, h.o.throttled}
	for _, l := range h.o.leases {
		all = append(all, l.Until)
	}
	if h.o.hold != nil {
		all = append(all, h.o.hold.Until)
	}
	for _, r := range h.o.p.rules {
		for _, v := range h.o.votes[max(0, len(h.o.votes)-5):] {
			all = append(all, v.at.Add(r.within))
		}
	}
	var known []time.Time
	for _, t := range all {
		if !t.IsZero() {
			known = append(known, t)
		}
	}
	return known
}

func (h *history) event(t *rapid.T) fusebox.Event {
	h.advance(t)
	e := fusebox.Event{At: h.now, Circuit: "tool/crm/lookup", Worker: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "worker")}
	deadline := func(label string) time.Time {
		s := rapid.SampledFrom([]int{0, 1, 5, 30, 200}).Draw(t, label)
		if s == 0 {
			return time.Time{}
		}
		return h.now.Add(time.Duration(s) * time.Second)
	}
	switch what := rapid.IntRange(0, 29).Draw(t, "what"); {
	case what < 16:
		h.result(t, &e)
	case what < 20:
		e.Kind, e.Action, e.Lease = fusebox.KindLease, fusebox.ActionGranted, fmt.Sprint("lease-", len(h.granted))
		e.Until = deadline("lease")
		e.LastResort = rapid.IntRange(0, 3).Draw(t, "resort") == 0
		e.Pick = rapid.IntRange(0, 2).Draw(t, "pick") == 0
		h.granted = append(h.granted, e)
	case what < 22:
		e.Kind = fusebox.KindLease
		e.Action = rapid.SampledFrom([]string{fusebox.ActionRenewed, fusebox.ActionReleased}).Draw(t, "action")
		e.Until = deadline("renewed")
		e.Lease = h.anyLease(t).Lease
	case what < 25:
		e.Kind = fusebox.KindDenied
		e.N = rapid.IntRange(0, 3).Draw(t, "refused")
		e.Reason = rapid.SampledFrom([]fusebox.Reason{fusebox.ReasonOpen, fusebox.ReasonOpen, fusebox.ReasonProbing, fusebox.ReasonThrottled, fusebox.ReasonHeld}).Draw(t, "reason")
	case what == 25:
		e.Kind, e.Until = fusebox.KindThrottle, deadline("throttle")
	case what == 26:
		e.Kind, e.Action, e.Until = fusebox.KindHold, fusebox.ActionHeld, deadline("hold")
		e.Phase = rapid.SampledFrom([]fusebox.Phase{fusebox.Open, fusebox.Closed}).Draw(t, "held")
	case what == 27:
		e.Kind, e.Action = fusebox.KindHold, fusebox.ActionLifted
	case what == 28:
		e.Kind = rapid.SampledFrom([]fusebox.EventKind{fusebox.KindTrip, fusebox.KindReset}).Draw(t, "operator")
	default:
		e.Kind = rapid.SampledFrom([]fusebox.EventKind{fusebox.KindTransition, fusebox.KindStart, "unheard-of"}).Draw(t, "other")
		e.Phase, e.Version = fusebox.Open, 77
	}
	return e
}

// result makes a report of a call: of one that was admitted in this version or
// an older one, of a probe, or of a caller who never asked.
func (h *history) result(t *rapid.T, e *fusebox.Event) {
	e.Outcome = rapid.SampledFrom([]fusebox.Outcome{fusebox.Failure, fusebox.Failure, fusebox.Failure, fusebox.Failure,
		fusebox.Success, fusebox.Success, fusebox.Success, fusebox.Rejected, fusebox.Throttled, fusebox.Canceled}).Draw(t, "outcome")
	e.Elapsed = rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 100*time.Millisecond + 1,
		time.Second, time.Second + 1, 7 * time.Second}).Draw(t, "elapsed")
	e.Run = rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "run")
	e.Call = rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "call")
	e.Late = rapid.IntRange(0, 9).Draw(t, "late") == 0
	switch e.Outcome {
	case fusebox.Failure:
		e.Class = rapid.SampledFrom([]fusebox.Class{fusebox.ClassServer, "", fusebox.ClassTimeout, fusebox.ClassAuth}).Draw(t, "class")
		e.Error = rapid.SampledFrom([]string{"", "refused"}).Draw(t, "error")
	case fusebox.Throttled:
		e.Until = rapid.SampledFrom([]time.Time{{}, h.now.Add(3 * time.Second), h.now.Add(-time.Second), h.now.AddDate(1, 0, 0)}).Draw(t, "until")
	case fusebox.Success:
		if rapid.IntRange(0, 2).Draw(t, "a run") == 0 {
			e.N = rapid.IntRange(0, 7).Draw(t, "run of")
			e.Since = h.now.Add(-time.Duration(rapid.IntRange(0, 30_000).Draw(t, "run ms")) * time.Millisecond)
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "time") {
	case 0: // another worker was faster with its report
		e.At = h.now.Add(-time.Duration(rapid.IntRange(0, int(mostDisorder/time.Millisecond)).Draw(t, "behind")) * time.Millisecond)
	case 1: // the writer's clock is ahead
		e.At = h.now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ahead")) * time.Millisecond)
		e.Seen = h.now
	}
	switch who := rapid.IntRange(0, 9).Draw(t, "who"); {
	case who < 4:
		e.Admitted, e.Version = true, h.o.version
	case who == 4:
		e.Admitted, e.Version = true, uint64(max(0, int(h.o.version)-rapid.IntRange(-1, 2).Draw(t, "older")))
	case who < 8 && len(h.granted) > 0:
		lease := h.anyLease(t)
		e.Admitted, e.Lease, e.Version = true, lease.Lease, lease.Version
		if rapid.IntRange(0, 9).Draw(t, "fence") == 0 {
			e.Version++
		}
	}
}

// anyLease returns a lease that was asked for, most often one of the newest.
func (h *history) anyLease(t *rapid.T) fusebox.Event {
	if len(h.granted) == 0 {
		return fusebox.Event{Lease: "never-granted"}
	}
	back := rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 5}).Draw(t, "lease")
	return h.granted[max(0, len(h.granted)-1-back)]
}

// TestFoldAgreesWithOracle folds random histories under random policies and
// compares every state with that of an oracle which keeps every event and
// counts everything again; beside it, it checks what must hold in any state.
func TestFoldAgreesWithOracle(t *testing.T) {
	check(t, 500, func(t *rapid.T) {
		p := drawPolicy(t)
		o := &oracle{p: p}
		h := &history{o: o, now: noon}
		policy := p.policy()
		if err := policy.Validate(); err != nil {
			t.Fatalf("the generator made a bad policy: %v", err)
		}
		state := fusebox.State{Seed: rapid.Uint64().Draw(t, "seed")}
		for range rapid.SampledFrom([]int{5, 20, 60, 100}).Draw(t, "steps") {
			e := h.event(t)
			before, snapshot := state, deepCopy(state)
			state = fusebox.Fold(policy, state, e)
			if !reflect.DeepEqual(before, snapshot) {
				t.Fatalf("Fold changed its argument:\nbefore %+v\nafter  %+v", snapshot, before)
			}
			version := o.version
			o.step(e)
			if o.version != version {
				jittered(t, o, &state)
			}
			if e.Kind == fusebox.KindLease && e.Action == fusebox.ActionGranted && state.HasLease(e.Lease) {
				h.granted[len(h.granted)-1].Version = state.Version
			}
			ahead := slices.DeleteFunc(h.instants(), func(t time.Time) bool { return t.Before(h.now) })
			if diff := o.differs(&state, append(ahead, h.now.Add(time.Millisecond))); diff != "" {
				t.Fatalf("after %s\nunder %s\n%s", e.AppendJSON(nil), policy.Trip, diff)
			}
			sound(t, policy, &before, &state, e)
		}
	})
}

// jittered checks a new cooldown against its bounds and lets the oracle, which
// knows no jitter, go on with the real one.
func jittered(t *rapid.T, o *oracle, s *fusebox.State) {
	if o.phase != fusebox.Open || s.Phase != fusebox.Open || o.p.cooldown.Jitter == 0 || s.Until.Equal(o.until) {
		return
	}
	base := o.cooldown()
	longest := time.Duration(float64(base) * (1 + o.p.cooldown.Jitter))
	if have := s.Until.Sub(s.Since); have < base || have > longest {
		t.Fatalf("a cooldown of %v, want %v to %v", have, base, longest)
	}
	o.until = s.Until
}

// sound checks what must hold of any state, and of any step.
func sound(t *rapid.T, p fusebox.Policy, before, after *fusebox.State, e fusebox.Event) {
	if after.Version != before.Version && after.Version != before.Version+1 {
		t.Fatalf("I1: version went from %d to %d", before.Version, after.Version)
	}
	if after.Version == before.Version && (after.Phase != before.Phase || !after.Since.Equal(before.Since)) {
		t.Fatalf("I1: phase or since changed without a version: %+v, then %+v", before, after)
	}
	if from, to := before.Phase, after.Phase; from != to && e.Kind == fusebox.KindEvidence {
		if from == fusebox.Open || from == fusebox.Closed && to == fusebox.HalfOpen {
			t.Fatalf("I1: evidence moved it from %v to %v", from, to)
		}
	}
	if len(after.Leases) > p.Probe.Concurrent || after.Phase != fusebox.HalfOpen && len(after.Leases) > 0 {
		t.Fatalf("I3: leases %+v, %d allowed, while %v", after.Leases, p.Probe.Concurrent, after.Phase)
	}
	if after.Phase == fusebox.Closed && !after.Until.IsZero() {
		t.Fatalf("I9: closed with a deadline: %+v", after)
	}
	if len(after.Marks) > 2*64 || len(after.Windows) > len(p.Trip) {
		t.Fatalf("I19: %d marks, %d windows", len(after.Marks), len(after.Windows))
	}
}

// deepCopy copies everything that Fold could reach through s.
func deepCopy(s fusebox.State) fusebox.State {
	copied := s
	copied.Leases, copied.Marks, copied.Windows = slices.Clone(s.Leases), slices.Clone(s.Marks), slices.Clone(s.Windows)
	for i := range copied.Windows {
		copied.Windows[i].Buckets = slices.Clone(s.Windows[i].Buckets)
	}
	if s.Hold != nil {
		hold := *s.Hold
		copied.Hold = &hold
	}
	return copied
}
