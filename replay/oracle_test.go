package replay

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

// The oracle replays a log the slow and obvious way: it keeps every call and
// every vote, looks through all of them at each step, and knows nothing of
// Fold. Times are in seconds after its epoch.

type oracleCall struct {
	at, took  float64
	outcome   string
	class     string
	run, call string

	started  bool
	done     bool
	admitted bool
	version  int
	probe    bool
}

func (c *oracleCall) start() float64 { return c.at - c.took }

type oracleRule struct {
	kind          string // streak, count, rate, slow
	n, of         int
	within, limit float64
	ratio         float64
}

func (r oracleRule) String() string {
	switch r.kind {
	case "streak":
		return fmt.Sprintf("streak=%d", r.n)
	case "count":
		if r.of > 0 {
			return fmt.Sprintf("count=%d,of=%d,within=%vs", r.n, r.of, r.within)
		}
		return fmt.Sprintf("count=%d,within=%vs", r.n, r.within)
	case "rate":
		return fmt.Sprintf("rate=%v,within=%vs,calls=%d", r.ratio, r.within, r.n)
	}
	return fmt.Sprintf("slow=%v,limit=%vs,within=%vs,calls=%d", r.ratio, r.limit, r.within, r.n)
}

type oraclePolicy struct {
	rules                                 []oracleRule
	fasterThan, overdue                   float64
	distinct                              bool
	after, growth, most, lease            float64
	cooldownCalls, concurrent, closeAfter int
}

type oracleVote struct {
	at, took float64
	failed   bool
	call     string
}

type oracle struct {
	p       oraclePolicy
	calls   []*oracleCall // sorted by at
	phase   fusebox.Phase
	version int
	votes   []oracleVote // since it last closed
	until   float64
	refused int
	passed  int
	fails   int // failed probes
	leases  map[*oracleCall]float64
	out     []byte
	sum     Summary
}

var oracleEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func oracleTime(s float64) time.Time {
	return oracleEpoch.Add(time.Duration(math.Round(s * 1e9)))
}

func (o *oracle) move(t float64, to fusebox.Phase, failures int) {
	o.version++
	o.out = AppendTransition(o.out, fusebox.Transition{At: oracleTime(t), Circuit: "c", From: o.phase, To: to, Version: uint64(o.version), Failures: failures})
	if o.phase == fusebox.Closed {
		o.sum.Opened++
		o.fails = 0
	}
	if o.phase == fusebox.HalfOpen && to == fusebox.Open {
		o.sum.ProbesFailed++
		o.fails++
	}
	o.phase = to
	o.votes, o.leases, o.refused, o.passed = nil, map[*oracleCall]float64{}, 0, 0
	if to == fusebox.Open {
		wait := o.p.after * math.Pow(o.p.growth, float64(o.fails))
		if o.p.most > 0 {
			wait = min(wait, o.p.most)
		}
		o.until = t + wait
	}
}

// run takes, again and again, what happens next: the earliest, ends before
// starts, in the order of the sorted log.
func (o *oracle) run() string {
	o.sum.Circuit = "c"
	for {
		var next *oracleCall
		var when float64
		var ends bool
		for _, c := range o.calls {
			t, end := c.start(), false
			if c.started {
				if c.done {
					continue
				}
				t, end = o.reports(c), true
			}
			if next == nil || t < when || t == when && end && !ends {
				next, when, ends = c, t, end
			}
		}
		switch {
		case next == nil:
			r := Report{Summaries: []Summary{o.sum}}
			return string(r.AppendLines(o.out))
		case ends:
			o.end(next, when)
		default:
			o.begin(next, when)
			if next.took == 0 {
				o.end(next, when)
			}
		}
	}
}

func (o *oracle) reports(c *oracleCall) float64 {
	if o.p.overdue > 0 && c.took > o.p.overdue {
		return c.start() + o.p.overdue
	}
	return c.at
}

func (o *oracle) begin(c *oracleCall, t float64) {
	c.started = true
	o.sum.Calls++
	switch o.phase {
	case fusebox.Closed:
		c.admitted = true
	case fusebox.Open:
		if o.p.cooldownCalls > 0 && o.refused >= o.p.cooldownCalls || o.p.cooldownCalls == 0 && t >= o.until {
			o.move(t, fusebox.HalfOpen, 0)
			c.probe = true
		} else {
			o.refused++
		}
	case fusebox.HalfOpen:
		live := 0
		for _, until := range o.leases {
			if t < until {
				live++
			}
		}
		if live < o.p.concurrent {
			for other, until := range o.leases {
				if t >= until {
					delete(o.leases, other)
				}
			}
			c.probe = true
		}
	}
	if c.probe {
		c.admitted = true
		o.sum.Probes++
		o.leases[c] = math.Inf(1)
		if o.p.lease > 0 {
			o.leases[c] = t + o.p.lease
		}
	}
	c.version = o.version
	failed, succeeded := c.outcome == "failure", c.outcome == "success"
	switch {
	case c.admitted && failed:
		o.sum.FailuresSeen++
	case !c.admitted && failed:
		o.sum.FailuresSpared++
	case !c.admitted && succeeded:
		o.sum.SuccessesDenied++
	}
	if c.admitted {
		o.sum.Admitted++
	} else {
		o.sum.Denied++
		c.done = true
	}
}

func (o *oracle) end(c *oracleCall, t float64) {
	if c.done {
		return
	}
	c.done = true
	outcome, class, took := c.outcome, c.class, c.took
	if o.p.overdue > 0 && took > o.p.overdue {
		outcome, class, took = "failure", "timeout", o.p.overdue
	}
	if c.version != o.version {
		return
	}
	if outcome == "throttled" || outcome == "canceled" {
		delete(o.leases, c)
		return
	}
	failed := outcome == "failure" && (o.p.fasterThan == 0 || took <= o.p.fasterThan)
	if o.phase == fusebox.HalfOpen {
		if _, holds := o.leases[c]; !holds {
			return
		}
		delete(o.leases, c)
		if failed {
			o.move(t, fusebox.Open, 1)
			return
		}
		if o.passed++; o.passed >= o.p.closeAfter {
			o.move(t, fusebox.Closed, 0)
		}
		return
	}
	if failed && class == "auth" {
		o.move(t, fusebox.Open, 1)
		return
	}
	call := ""
	if c.call != "" {
		call = c.run + "\x00" + c.call
	}
	if failed && o.p.distinct && call != "" && o.repeats(call, t) {
		return
	}
	o.votes = append(o.votes, oracleVote{t, took, failed, call})
	for _, r := range o.p.rules {
		if n, met := o.met(r, t); met {
			o.move(t, fusebox.Open, n)
			return
		}
	}
}

func (o *oracle) repeats(call string, t float64) bool {
	streak := true
	for _, v := range slices.Backward(o.votes) {
		if !v.failed {
			streak = false
			continue
		}
		if v.call != call {
			continue
		}
		for _, r := range o.p.rules {
			if r.kind == "streak" && streak || r.kind != "streak" && v.at >= t-r.within {
				return true
			}
		}
	}
	return false
}

func (o *oracle) met(r oracleRule, t float64) (int, bool) {
	n, all := 0, 0
	for i, v := range slices.Backward(o.votes) {
		back := len(o.votes) - 1 - i
		switch r.kind {
		case "streak":
			if !v.failed {
				return n, n >= r.n
			}
			n++
		case "count":
			if v.failed && v.at >= t-r.within && (r.of == 0 || back < r.of) {
				n++
			}
		default:
			bucket := func(s float64) float64 { return math.Floor(float64(oracleTime(s).UnixNano()) / (r.within / 20 * 1e9)) }
			if bucket(v.at) <= bucket(t)-20 {
				continue
			}
			all++
			if r.kind == "rate" && v.failed || r.kind == "slow" && v.took > r.limit {
				n++
			}
		}
	}
	if r.kind == "rate" || r.kind == "slow" {
		return n, all >= r.n && n > 0 && float64(n) >= r.ratio*float64(all)
	}
	failed := len(o.votes) > 0 && o.votes[len(o.votes)-1].failed
	return n, failed && n >= r.n
}

// policy is p in the words of the root package.
func (p oraclePolicy) policy(t *rapid.T) fusebox.Policy {
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	q := bare()
	for _, r := range p.rules {
		trip, err := fusebox.ParseTrip(r.String())
		if err != nil {
			t.Fatal(err)
		}
		q.Trip = append(q.Trip, trip)
	}
	q.FasterThan, q.Overdue, q.Distinct = seconds(p.fasterThan), seconds(p.overdue), p.distinct
	q.Cooldown = fusebox.Cooldown{After: seconds(p.after), Calls: p.cooldownCalls, Growth: p.growth, Max: seconds(p.most)}
	q.Probe = fusebox.Probe{Concurrent: p.concurrent, CloseAfter: p.closeAfter, Lease: seconds(p.lease)}
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	return q
}

func drawPolicy(t *rapid.T) oraclePolicy {
	one := func(label string, of ...float64) float64 { return rapid.SampledFrom(of).Draw(t, label) }
	number := func(label string, most int) int { return rapid.IntRange(1, most).Draw(t, label) }
	p := oraclePolicy{
		distinct: rapid.Bool().Draw(t, "distinct"), fasterThan: one("faster", 0, 0, 1), overdue: one("overdue", 0, 0, 0.5, 3),
		growth: one("growth", 1, 2), lease: one("lease", 0, 1, 2.5), concurrent: number("concurrent", 3), closeAfter: number("close", 3),
	}
	if rapid.Bool().Draw(t, "by calls") {
		p.cooldownCalls = number("calls", 3)
	} else {
		p.after = one("after", 0, 0.5, 3, 10)
		if p.growth > 1 && p.after > 0 {
			p.most = one("most", 0, 15)
		}
	}
	kinds := []string{"streak", "count"}
	if !p.distinct { // shares and `of` forget which calls they have seen
		kinds = append(kinds, "of", "rate", "slow")
	}
	for range number("rules", 2) {
		r := oracleRule{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), n: number("n", 4), within: one("within", 2, 5, 20)}
		switch r.kind {
		case "of":
			r.kind, r.of = "count", r.n+rapid.IntRange(0, 3).Draw(t, "of")
		case "rate", "slow":
			r.ratio, r.limit = one("ratio", 0.25, 0.5, 1), one("limit", 0.25, 1)
		}
		p.rules = append(p.rules, r)
	}
	return p
}

// drawLog returns a log's lines, out of order, and the calls that it tells of,
// sorted by their ends.
func drawLog(t *rapid.T) (lines []string, calls []*oracleCall) {
	half := func(label string, least, most int) float64 {
		return float64(rapid.IntRange(least, most).Draw(t, label)) / 2
	}
	for range rapid.IntRange(0, 30).Draw(t, "lines") {
		c := oracleCall{
			at: half("at", 0, 60), took: rapid.SampledFrom([]float64{0, 0, 0.5, 1, 1.5, 4}).Draw(t, "took"),
			outcome: rapid.SampledFrom([]string{"failure", "failure", "failure", "success", "success", "rejected", "throttled", "canceled"}).Draw(t, "outcome"),
			run:     rapid.SampledFrom([]string{"r", "s"}).Draw(t, "run"), call: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "call"),
		}
		fields := map[string]any{"circuit": "c", "at": oracleTime(c.at), "outcome": c.outcome, "ms": c.took * 1000, "run": c.run, "call": c.call}
		if c.outcome == "failure" {
			c.class = rapid.SampledFrom([]string{"server", "server", "server", "auth"}).Draw(t, "class")
			fields["class"] = c.class
		}
		if n := rapid.IntRange(1, 4).Draw(t, "n"); n > 1 && c.outcome == "success" {
			gap := half("gap", 0, 3)
			fields["n"], fields["since"] = n, oracleTime(c.at-gap*float64(n-1))
			for i := range n - 1 {
				earlier := c
				earlier.at -= gap * float64(n-1-i)
				calls = append(calls, &earlier)
			}
		}
		calls = append(calls, &c)
		line, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	slices.SortStableFunc(calls, func(a, b *oracleCall) int { return cmp.Compare(a.at, b.at) })
	return lines, calls
}

func TestReplayAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		lines, calls := drawLog(t)
		o := oracle{p: p, calls: calls, leases: map[*oracleCall]float64{}}
		want := o.run()

		var got []byte
		l := NewLog(Options{
			Policy: always(p.policy(t)), Circuit: "c", room: rapid.IntRange(0, 4).Draw(t, "room"),
			Changed: func(tr fusebox.Transition) error { got = AppendTransition(got, tr); return nil },
		})
		defer l.Close()
		if err := l.Read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		r, err := l.Replay()
		if err != nil {
			t.Fatal(err)
		}
		if got = r.AppendLines(got); string(got) != want {
			t.Errorf("policy %+v\nlog\n%s\ngot\n%swant\n%s", p, strings.Join(lines, "\n"), got, want)
		}
	})
}

func init() {
	flag.Set("rapid.checks", "500") // unless the command line says otherwise
}
