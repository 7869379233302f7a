package fusebox

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Policy is how evidence trips a circuit, how long it stays open and how it is
// probed. A wholly zero Policy stands for its kind's: see [DefaultPolicy].
// Otherwise every field means what it says, zero too, so start from a
// DefaultPolicy and change what differs.
type Policy struct {
	Trip       []Trip        // any rule that is met opens the circuit; none = no circuit: nothing ever opens it
	OnClass    []Class       // trips at the first failure of one of these
	FasterThan time.Duration // failures that took longer count as calls that worked; 0 = all failures count
	Overdue    time.Duration // a call that has run for so long without [Permit.Answering] is a failure at that moment; 0 = wait for its end
	Distinct   bool          // repeats of one exact call by one run are one piece of evidence
	Cooldown   Cooldown
	Probe      Probe
	Observe    bool // decide and record, but refuse nothing

	// Quorum is how many hosts must have failed before the circuit opens for
	// all, of those that report: where fewer are live, all of them. A host's own
	// failures open the circuit for that host alone. 0 = what the store is made
	// for: 2 where it serves many hosts, else 1. At most [MaxQuorum].
	Quorum int

	// Loaded is when the configuration that this policy comes from was read.
	// Where workers share a store, the newer policy wins. Zero = from no
	// configuration: anything loaded is newer.
	Loaded time.Time
}

// Cooldown is how long an open circuit refuses before it may be probed.
type Cooldown struct {
	After  time.Duration // 0 = the next call probes
	Calls  int           // instead of a time: so many refused calls, then the next one probes; 0 = by time
	Jitter float64       // added, uniform in 0..Jitter of the base, so that a fleet does not probe at once; 0..1
	Growth float64       // factor per failed probe; 1 (or 0) = none
	Max    time.Duration // cap of the growth, before jitter; 0 = none
}

// Probe is how a half-open circuit is tested.
type Probe struct {
	Concurrent int           // probes at once, at least 1
	CloseAfter int           // successful probes that close the circuit, at least 1
	Attempts   int           // attempts per probe: retries are for normal calls; 0 = as many as normal
	Lease      time.Duration // a probe that has not reported by then is void and another may probe; 0 = no deadline
}

type tripKind uint8

const (
	tripStreak tripKind = iota + 1
	tripCount
	tripRate
	tripSlow
)

// Trip is one rule that opens a circuit. Make one with [Streak], [Count],
// [Rate] or [Slow]; they differ in what a success proves.
type Trip struct {
	kind   tripKind
	n      int // failures, or least calls of a ratio
	of     int
	within time.Duration
	ratio  float64
	limit  time.Duration
}

// Streak trips at n failures in a row, in the order of completion. A success
// resets it. It is never windowed: a call that fails every 20 s for an hour
// trips it. Over parallel workers it counts an accident of completion order;
// use [Count] there.
func Streak(n int) Trip { return Trip{kind: tripStreak, n: n} }

// Count trips at n failures within a rolling window. A success erases nothing.
// A failure at time m counts at time t while t-within <= m <= t.
func Count(n int, within time.Duration) Trip { return Trip{kind: tripCount, n: n, within: within} }

// Of narrows a [Count]: the failures must also be among the last m results that
// voted since the circuit last closed. It is the rule for high and shared call
// rates, where plain counts open falsely as the rate grows.
func (t Trip) Of(m int) Trip { t.of = m; return t }

// Rate trips when at least ratio of the results within the rolling window are
// failures, given at least minCalls results. The window is 20 buckets of
// within/20, aligned to the epoch, and is looked at after every vote.
func Rate(ratio float64, within time.Duration, minCalls int) Trip {
	return Trip{kind: tripRate, ratio: ratio, within: within, n: minCalls}
}

// Slow trips when at least ratio of the results within the rolling window took
// longer than limit, given at least minCalls results. Windows are as for [Rate].
func Slow(ratio float64, limit, within time.Duration, minCalls int) Trip {
	return Trip{kind: tripSlow, ratio: ratio, limit: limit, within: within, n: minCalls}
}

// DefaultPolicy returns what is built in for a kind of circuit: "model",
// "tool", "session", "check"; any other kind is treated as "model", without its
// overdue.
func DefaultPolicy(kind string) Policy {
	p := Policy{
		Trip:     []Trip{Count(5, time.Minute).Of(10), Streak(5)},
		OnClass:  []Class{ClassAuth},
		Cooldown: Cooldown{After: 30 * time.Second, Jitter: 0.2, Growth: 2, Max: 2 * time.Minute},
		Probe:    Probe{Concurrent: 1, CloseAfter: 1, Attempts: 1, Lease: time.Minute},
	}
	switch kind {
	case "tool":
		p.Trip = []Trip{Streak(3)}
		p.Cooldown.Max = 5 * time.Minute
		p.Distinct = true
	case "check":
		p.Trip = []Trip{Streak(3)}
		p.Cooldown.Growth, p.Cooldown.Max = 1, 0
	case "session":
		p.Trip = []Trip{Count(3, time.Hour)}
		p.FasterThan = time.Minute
		p.Cooldown = Cooldown{After: time.Hour, Jitter: 0.1, Growth: 1}
		p.Probe.Lease = 30 * time.Minute
	}
	return p
}

// IsZero reports whether p is wholly zero and so stands for its kind's policy.
func (p Policy) IsZero() bool {
	return p.Trip == nil && p.OnClass == nil && p.FasterThan == 0 && p.Overdue == 0 && !p.Distinct &&
		p.Cooldown == Cooldown{} && p.Probe == Probe{} && !p.Observe && p.Quorum == 0 && p.Loaded.IsZero()
}

// Equal reports whether p and q decide alike; Loaded does not matter.
func (p Policy) Equal(q Policy) bool {
	return slices.Equal(p.Trip, q.Trip) && slices.Equal(p.OnClass, q.OnClass) &&
		p.FasterThan == q.FasterThan && p.Overdue == q.Overdue && p.Distinct == q.Distinct &&
		p.Cooldown == q.Cooldown && p.Probe == q.Probe && p.Observe == q.Observe && max(p.Quorum, 1) == max(q.Quorum, 1)
}

// PolicyError names the field of a Policy that cannot be used.
type PolicyError struct {
	Field string // as in the configuration file: "trip", "cooldown.jitter"
	Want  string // what was expected, and what was found
}

func (e *PolicyError) Error() string { return "fusebox: policy: " + e.Field + ": " + e.Want }

// Is reports whether target is [ErrPolicy].
func (e *PolicyError) Is(target error) bool { return target == ErrPolicy }

// maxThreshold bounds every count in a policy: marks are kept up to it.
const maxThreshold = 100_000

// Validate returns every mistake in p, joined; each is a *[PolicyError].
func (p Policy) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &PolicyError{Field: field, Want: fmt.Sprintf(format, args...)})
	}
	for _, t := range p.Trip {
		t.validate(bad)
	}
	for _, c := range p.OnClass {
		if _, err := ParseClass(string(c)); err != nil {
			bad("on_class", "%v", err)
		}
	}
	positive := func(field string, d time.Duration) {
		if d < 0 {
			bad(field, "want a duration of 0 or more, have %v", d)
		}
	}
	positive("faster_than", p.FasterThan)
	positive("overdue", p.Overdue)
	positive("cooldown.after", p.Cooldown.After)
	positive("cooldown.max", p.Cooldown.Max)
	positive("probe.lease", p.Probe.Lease)
	if c := p.Cooldown; c.Calls < 0 || c.Calls > maxThreshold {
		bad("cooldown.calls", "want 0 to %d, have %d", maxThreshold, c.Calls)
	} else if c.Calls > 0 && c.After > 0 {
		bad("cooldown", "want a time (after) or a number of calls, not both")
	}
	if j := p.Cooldown.Jitter; !(j >= 0 && j <= 1) {
		bad("cooldown.jitter", "want 0 to 1, have %v", j)
	}
	if g := p.Cooldown.Growth; g != 0 && !(g >= 1 && g <= 100) {
		bad("cooldown.growth", "want 1 to 100, have %v", g)
	}
	if c := p.Cooldown; c.Max > 0 && c.Max < c.After {
		bad("cooldown.max", "want at least cooldown.after (%v), have %v", c.After, c.Max)
	}
	if len(p.Trip) > 0 || len(p.OnClass) > 0 {
		if n := p.Probe.Concurrent; n < 1 || n > 1000 {
			bad("probe.concurrent", "want 1 to 1000, have %d", n)
		}
		if n := p.Probe.CloseAfter; n < 1 || n > 1000 {
			bad("probe.close_after", "want 1 to 1000, have %d", n)
		}
	}
	if n := p.Probe.Attempts; n < 0 || n > 100 {
		bad("probe.attempts", "want 0 to 100, have %d", n)
	}
	if n := p.Quorum; n < 0 || n > MaxQuorum {
		bad("quorum", "want 1 to %d hosts, have %d", MaxQuorum, n)
	}
	return errors.Join(errs...)
}

func (t Trip) validate(bad func(field, format string, args ...any)) {
	count := func(field string, n int) {
		if n < 1 || n > maxThreshold {
			bad(field, "want a threshold of 1 to %d, have %d", maxThreshold, n)
		}
	}
	window := func() {
		if t.within < time.Millisecond {
			bad("trip.within", "want a window of at least 1ms, have %v", t.within)
		}
	}
	ratio := func(field string) {
		if !(t.ratio > 0 && t.ratio <= 1) || math.IsNaN(t.ratio) {
			bad(field, "want a share above 0 and up to 1, have %v", t.ratio)
		}
	}
	if t.of != 0 && t.kind != tripCount {
		bad("trip.of", "goes with a count only")
	}
	switch t.kind {
	case tripStreak:
		count("trip.streak", t.n)
	case tripCount:
		count("trip.count", t.n)
		window()
		if t.of != 0 && (t.of < t.n || t.of > maxThreshold) {
			bad("trip.of", "want at least the count (%d), at most %d, have %d", t.n, maxThreshold, t.of)
		}
	case tripRate:
		ratio("trip.rate")
		window()
		count("trip.calls", t.n)
	case tripSlow:
		ratio("trip.slow")
		window()
		count("trip.calls", t.n)
		if t.limit <= 0 {
			bad("trip.limit", "want a duration above 0, have %v", t.limit)
		}
	default:
		bad("trip", "want a rule made by Streak, Count, Rate or Slow")
	}
}

// orDefault returns p, or the kind's policy where p is wholly zero.
func (p Policy) orDefault(circuit string) Policy {
	if p.IsZero() {
		return DefaultPolicy(Kind(circuit))
	}
	return p
}
