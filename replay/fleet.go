package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Fleet is a number of replicas that call one provider, which is down for a
// while. Each replica calls at random (a Poisson process). Time is virtual, and
// the same Fleet always gives the same summary.
//
// A call that reaches the provider while it is down fails once DownLatency has
// passed, all others succeed after Latency. Provider and replicas have a
// normal time of Before behind them when the outage begins.
//
// Local replicas each have a circuit of their own. Shared ones have one: what
// it decides is known to a replica Propagation later, so calls go on for so
// long after it opened; who may probe is decided by the one circuit.
type Fleet struct {
	Replicas    int
	Rate        float64 // calls a second and replica, more than 0
	Before      time.Duration
	Outage      time.Duration
	Latency     time.Duration
	DownLatency time.Duration
	Policy      fusebox.Policy
	Seed        uint64
	Shared      bool
	Propagation time.Duration
}

// FleetSummary counts over all replicas. Detect and Recover are in seconds.
type FleetSummary struct {
	CallsDown           int `json:"calls_down"`             // reached the provider while it was down
	CallsDownBeforeOpen int `json:"calls_down_before_open"` // of these, made before the caller's circuit had opened
	Probes              int `json:"probes"`
	ProbesPeak          int `json:"probes_peak_1s"` // most probes within any one second

	// Detect is the time from the beginning of the outage until the last
	// replica stopped; nil = not all of them did.
	Detect *float64 `json:"detect_s"`

	// Recover is the time from the provider's return until the last replica
	// calls again; nil = within a day not all of them did.
	Recover *float64 `json:"recover_s"`
}

// patience is how long after the provider's return a policy is given up that
// lets no fleet recover.
const patience = int64(24 * time.Hour)

// AppendLine appends {"summary":{…}} as one line of JSON.
func (s *FleetSummary) AppendLine(b []byte) []byte { return appendLine(b, summaryLine{s}) }

// Simulate runs the fleet until every replica calls again and every circuit is
// closed, or for a day after the outage.
func (f Fleet) Simulate() FleetSummary {
	circuits, callers := f.Replicas, 1
	if f.Shared {
		circuits, callers = 1, f.Replicas
	}
	t := tally{detected: true, recovered: true}
	for i := range circuits {
		g := f.group(i, callers)
		g.run()
		t.add(g)
	}
	return t.summary()
}

// tally adds up groups.
type tally struct {
	s         FleetSummary
	probes    []int64
	detected  bool
	detect    int64
	recovered bool
	recover   int64
}

func (t *tally) add(g *group) {
	t.s.CallsDown += g.down
	t.s.CallsDownBeforeOpen += g.downBeforeOpen
	t.probes = append(t.probes, g.probes...)
	t.detected = t.detected && g.stopped >= 0
	t.detect = max(t.detect, g.stopped)
	t.recovered = t.recovered && g.away == 0
	t.recover = max(t.recover, g.recovered)
}

func (t *tally) summary() FleetSummary {
	t.s.Probes = len(t.probes)
	t.s.ProbesPeak = peak(t.probes, int64(time.Second))
	if t.detected {
		t.s.Detect = seconds(t.detect)
	}
	if t.recovered {
		t.s.Recover = seconds(t.recover)
	}
	return t.s
}

func seconds(ns int64) *float64 {
	s := time.Duration(ns).Seconds()
	return &s
}

// peak is the largest number of times that lie within less than span.
func peak(times []int64, span int64) int {
	slices.Sort(times)
	most, from := 0, 0
	for to, t := range times {
		for t-times[from] >= span {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

// group is the callers of one circuit, and what they see of it. Times are
// nanoseconds since the simulation began.
type group struct {
	Fleet
	random  *rand.Rand
	state   fusebox.State
	seen    view // by the callers now
	coming  []view
	flights heap[attempt]
	back    []bool // per caller: has called again
	away    int    // callers that have not
	from    int64  // the outage
	to      int64

	down, downBeforeOpen int
	probes               []int64
	stopped              int64 // since the outage began; -1 = not yet
	recovered            int64 // since it ended
}

// view is what callers know of the circuit from a time on.
type view struct {
	at      int64
	phase   fusebox.Phase
	version uint64
}

// attempt is a call under way.
type attempt struct {
	report  int64
	started int64
	order   int
	outcome fusebox.Outcome
	version uint64
	lease   string
}

func (f Fleet) group(i, callers int) *group {
	g := &group{
		Fleet:  f,
		random: rand.New(rand.NewPCG(f.Seed, uint64(i))),
		back:   make([]bool, callers), away: callers,
		from: int64(f.Before), to: int64(f.Before + f.Outage), stopped: -1,
	}
	g.state = fusebox.State{Policy: f.Policy, Seed: g.random.Uint64()}
	g.flights.before = func(a, b *attempt) bool {
		if a.report != b.report {
			return a.report < b.report
		}
		return a.order < b.order
	}
	return g
}

// run makes calls until the incident is over.
func (g *group) run() {
	rate := g.Rate * float64(len(g.back)) / 1e9
	var t float64
	for order := 0; ; order++ {
		t += g.random.ExpFloat64() / rate
		now := int64(min(t, math.MaxInt64/2))
		for !g.flights.empty() && g.flights.first().report <= now {
			g.report(g.flights.pop())
		}
		recovered := g.away == 0 && g.state.Phase == fusebox.Closed && now > g.to+int64(g.DownLatency)
		if recovered || now > g.to+patience {
			return
		}
		caller := 0
		if len(g.back) > 1 {
			caller = g.random.IntN(len(g.back))
		}
		g.call(caller, order, now)
	}
}

// call asks the circuit and, if it may, calls the provider.
func (g *group) call(caller, order int, now int64) {
	a := attempt{started: now, order: order}
	if !g.ask(&a) {
		return
	}
	latency := g.Latency
	if g.from <= now && now < g.to {
		g.down++
		if g.stopped < 0 || now < g.from+g.stopped {
			g.downBeforeOpen++
		}
		latency, a.outcome = g.DownLatency, fusebox.Failure
	}
	if now >= g.to && !g.back[caller] {
		g.back[caller] = true
		g.away--
		g.recovered = now - g.to
	}
	if overdue := g.Policy.Overdue; overdue > 0 && latency > overdue {
		latency, a.outcome = overdue, fusebox.Failure
	}
	a.report = now + int64(latency)
	if latency == 0 {
		g.report(a)
		return
	}
	g.flights.push(a)
}

// ask decides by what the caller knows, and about probes by the circuit itself.
func (g *group) ask(a *attempt) bool {
	for len(g.coming) > 0 && g.coming[0].at <= a.started {
		g.seen, g.coming = g.coming[0], g.coming[1:]
	}
	if g.seen.phase == fusebox.Closed {
		a.version = g.seen.version
		return true
	}
	at := moment(a.started)
	d := g.state.Decide(at)
	switch {
	case d.Probe:
		a.lease = "probe-" + strconv.Itoa(a.order)
		grant := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Lease: a.lease}
		if lease := g.Policy.Probe.Lease; lease > 0 {
			grant.Until = at.Add(lease)
		}
		g.apply(&grant, a.started)
		g.probes = append(g.probes, a.started)
		a.version = g.state.Version
		return true
	case !d.Go:
		g.apply(&fusebox.Event{Kind: fusebox.KindDenied, At: at, Reason: d.Reason}, a.started)
	}
	return false
}

func (g *group) report(a attempt) {
	e := fusebox.Event{
		At: moment(a.report), Outcome: a.outcome, Elapsed: time.Duration(a.report - a.started),
		Admitted: true, Version: a.version, Lease: a.lease,
	}
	if a.outcome == fusebox.Failure {
		e.Class = fusebox.ClassServer
	}
	g.apply(&e, a.report)
}

// apply folds e and lets the callers know of a change when it reaches them.
func (g *group) apply(e *fusebox.Event, now int64) {
	before := g.state.Version
	g.state.Apply(e)
	if g.state.Version == before {
		return
	}
	known := now
	if g.Shared {
		known += int64(g.Propagation)
	}
	g.coming = append(g.coming, view{known, g.state.Phase, g.state.Version})
	if g.state.Phase == fusebox.Open && g.stopped < 0 {
		g.stopped = max(known-g.from, 0)
	}
}
