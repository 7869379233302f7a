package fusebox_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// oracle is a circuit that is obviously right and as slow as it likes: it keeps
// every vote since the last change of phase and counts all of them again
// whenever somebody asks. It shares no code with Fold: rules are its own
// structs, times are compared one by one, nothing is pruned or bucketed ahead.
type oracle struct {
	p oraclePolicy

	phase   fusebox.Phase
	version uint64
	since   time.Time
	until   time.Time // end of the cooldown; zero = none, or it counts refusals

	votes  []vote
	newest time.Time // newest time at which evidence was judged

	openedBy     int // the count that opened it
	failedProbes int
	refused      int // since this cooldown began
	denied       int // since it opened
	passed       int
	resortUsed   bool
	leases       []fusebox.Lease

	hold      *fusebox.Hold
	throttled time.Time
	throttles int

	checked   time.Time
	lastError string
}

type oraclePolicy struct {
	rules      []oracleRule
	onClass    []fusebox.Class
	fasterThan time.Duration
	distinct   bool
	cooldown   fusebox.Cooldown
	probe      fusebox.Probe
}

// oracleRule is one trip rule as the contract words it.
type oracleRule struct {
	kind    string // streak, count, rate, slow
	n       int
	of      int
	within  time.Duration
	percent int // of a share
	limit   time.Duration
}

func (r oracleRule) trip() fusebox.Trip {
	switch r.kind {
	case "streak":
		return fusebox.Streak(r.n)
	case "count":
		return fusebox.Count(r.n, r.within).Of(r.of)
	case "rate":
		return fusebox.Rate(float64(r.percent)/100, r.within, r.n)
	}
	return fusebox.Slow(float64(r.percent)/100, r.limit, r.within, r.n)
}

func (r oracleRule) share() bool { return r.kind == "rate" || r.kind == "slow" }

func (p oraclePolicy) policy() fusebox.Policy {
	q := fusebox.Policy{Trip: []fusebox.Trip{}, OnClass: p.onClass, FasterThan: p.fasterThan,
		Distinct: p.distinct, Cooldown: p.cooldown, Probe: p.probe}
	for _, r := range p.rules {
		q.Trip = append(q.Trip, r.trip())
	}
	return q
}

// vote is one result that counted.
type vote struct {
	at      time.Time
	failed  bool
	elapsed time.Duration
	run     string
	call    string
	ahead   bool // its time lay in the future when it was judged: in no share
}

func (o *oracle) step(e fusebox.Event) {
	t := e.At
	if !e.Seen.IsZero() && e.Seen.Before(t) {
		t = e.Seen
	}
	if o.hold != nil && !o.held(t) { // it has run out
		if o.phase == fusebox.Open && !o.until.IsZero() && o.hold.Until.After(o.until) {
			o.until = o.hold.Until
		}
		o.hold = nil
	}
	switch e.Kind {
	case fusebox.KindEvidence:
		o.evidence(e, t)
	case fusebox.KindLease:
		o.lease(e, t)
	case fusebox.KindDenied:
		o.denied += max(e.N, 1)
		if o.phase == fusebox.Open && e.Reason == fusebox.ReasonOpen {
			o.refused += max(e.N, 1)
		}
	case fusebox.KindThrottle:
		o.throttles = 0
		o.throttled = time.Time{}
		if e.Until.After(t) {
			o.throttled = earliest(e.Until, t.Add(24*time.Hour))
		}
	case fusebox.KindHold:
		o.override(e, t)
	case fusebox.KindTrip:
		if o.hold == nil {
			count := o.count(t)
			o.failedProbes = 0
			o.open(t, count)
		}
	case fusebox.KindReset:
		if o.hold == nil {
			o.close(t)
			o.throttled, o.throttles = time.Time{}, 0
		}
	}
}

func (o *oracle) held(t time.Time) bool {
	return o.hold != nil && (o.hold.Until.IsZero() || t.Before(o.hold.Until))
}

func (o *oracle) evidence(e fusebox.Event, t time.Time) {
	if e.Outcome != fusebox.Canceled {
		o.checked = newest(o.checked, t)
		if e.Outcome == fusebox.Success && !e.Late {
			o.throttles = 0
		}
		if e.Outcome == fusebox.Failure {
			o.lastError = e.Error
			if e.Error == "" {
				o.lastError = string(e.Class)
			}
		}
	}
	o.newest = newest(o.newest, t)
	if e.Outcome == fusebox.Throttled || e.Outcome == fusebox.Failure && !e.Until.IsZero() {
		o.throttle(e, t)
	}
	if e.Late {
		return
	}
	switch e.Outcome {
	case fusebox.Canceled, fusebox.Throttled: // decide nothing, give the slot back
		if i := o.reportsOn(e); o.phase == fusebox.HalfOpen && i >= 0 {
			o.leases = slices.Delete(o.leases, i, i+1)
		}
		return
	}
	if o.hold != nil || o.phase == fusebox.Open {
		return
	}
	failed := e.Outcome == fusebox.Failure && (o.p.fasterThan == 0 || e.Elapsed <= o.p.fasterThan)
	if o.phase == fusebox.HalfOpen {
		o.verdict(e, t, failed)
		return
	}
	began := e.At.Add(-e.Elapsed)
	switch {
	case e.Lease != "": // a probe of a half-open phase that is over
		return
	case e.Admitted && e.Version != o.version:
		return
	case !e.Admitted && began.Before(o.since):
		return
	}
	if failed && e.Class != "" && slices.Contains(o.p.onClass, e.Class) {
		o.failedProbes = 0
		o.open(t, 1)
		return
	}
	if failed && o.repeated(e, t) {
		return
	}
	for _, at := range ends(e, failed) {
		o.votes = append(o.votes, vote{at: at, failed: failed, elapsed: e.Elapsed, run: e.Run, call: e.Call, ahead: e.At.After(t)})
	}
	for _, r := range o.p.rules {
		if !failed && !r.share() {
			continue // a call that worked adds to no count
		}
		at := o.judgedAt(r.within, t)
		if count, met := o.measure(r, at); met {
			o.failedProbes = 0
			o.open(at, count)
			return
		}
	}
}

// ends lists when each call of a run ended: spread evenly, both ends included.
func ends(e fusebox.Event, failed bool) []time.Time {
	n := max(e.N, 1)
	if failed {
		n = 1
	}
	all := make([]time.Time, n)
	for k := range all {
		all[k] = e.At
		if n > 1 && !e.Since.IsZero() && e.Since.Before(e.At) {
			all[k] = e.Since.Add(e.At.Sub(e.Since) * time.Duration(k) / time.Duration(n-1))
		}
	}
	return all
}

// judgedAt is the newest time seen, unless it is more than the window ahead.
func (o *oracle) judgedAt(within time.Duration, t time.Time) time.Time {
	if ahead := o.newest.Sub(t); ahead > 0 && ahead <= within {
		return o.newest
	}
	return t
}

func (o *oracle) repeated(e fusebox.Event, t time.Time) bool {
	if !o.p.distinct || e.Call == "" {
		return false
	}
	var longest time.Duration
	streak := false
	for _, r := range o.p.rules {
		longest = max(longest, r.within)
		streak = streak || r.kind == "streak"
	}
	at := o.judgedAt(longest, t)
	inRow := true
	for _, v := range slices.Backward(o.votes) {
		inRow = inRow && v.failed
		if !v.failed || v.run != e.Run || v.call != e.Call {
			continue
		}
		if streak && inRow || longest > 0 && !v.at.Before(at.Add(-longest)) && !v.at.After(at) {
			return true
		}
	}
	return false
}

// measure counts what r looks at, from the whole list.
func (o *oracle) measure(r oracleRule, at time.Time) (count int, met bool) {
	switch r.kind {
	case "streak":
		for _, v := range slices.Backward(o.votes) {
			if !v.failed {
				break
			}
			count++
		}
		return count, count >= r.n
	case "count":
		for i, v := range o.votes {
			if r.of > 0 && i < len(o.votes)-r.of {
				continue
			}
			if v.failed && !v.at.Before(at.Add(-r.within)) && !v.at.After(at) {
				count++
			}
		}
		return count, count >= r.n
	}
	size := int64(r.within) / 20
	last := floorDiv(at.UnixNano(), size)
	all, bad := 0, 0
	for _, v := range o.votes {
		bucket := floorDiv(v.at.UnixNano(), size)
		if v.ahead || bucket <= last-20 || bucket > last {
			continue
		}
		all++
		if r.kind == "rate" && v.failed || r.kind == "slow" && v.elapsed > r.limit {
			bad++
		}
	}
	return bad, all >= r.n && bad*100 >= r.percent*all && bad > 0
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// count is how near the circuit is to opening.
func (o *oracle) count(t time.Time) int {
	if o.phase != fusebox.Closed {
		return o.openedBy
	}
	most := 0
	for _, r := range o.p.rules {
		if n, _ := o.measure(r, o.judgedAt(r.within, t)); r.kind != "slow" {
			most = max(most, n)
		}
	}
	return most
}

func (o *oracle) reportsOn(e fusebox.Event) int {
	if e.Lease != "" {
		return slices.IndexFunc(o.leases, func(l fusebox.Lease) bool { return l.Token == e.Lease && e.Version == o.version })
	}
	if e.Admitted {
		return -1
	}
	began := e.At.Add(-e.Elapsed)
	return slices.IndexFunc(o.leases, func(l fusebox.Lease) bool { return l.Pick && !began.Before(l.At.Add(-time.Second)) })
}

func (o *oracle) verdict(e fusebox.Event, t time.Time, failed bool) {
	i := o.reportsOn(e)
	switch {
	case i < 0:
	case failed && o.leases[i].Resort:
		o.phase, o.since, o.leases, o.passed = fusebox.Open, t, nil, 0
		o.version++
	case failed:
		o.failedProbes++
		o.open(t, o.openedBy)
	default:
		o.leases = slices.Delete(o.leases, i, i+1)
		o.passed++
		if o.passed >= o.p.probe.CloseAfter {
			o.close(t)
		}
	}
}

func (o *oracle) throttle(e fusebox.Event, t time.Time) {
	if !e.Until.IsZero() {
		o.throttles = 0
		o.throttled = newest(o.throttled, earliest(e.Until, t.Add(24*time.Hour)))
		return
	}
	waits := []time.Duration{1, 2, 4, 8, 16, 32, 60}
	wait := waits[min(o.throttles, len(waits)-1)] * time.Second
	o.throttles++
	o.throttled = newest(o.throttled, t.Add(wait))
}

func (o *oracle) lease(e fusebox.Event, t time.Time) {
	i := slices.IndexFunc(o.leases, func(l fusebox.Lease) bool { return l.Token == e.Lease })
	switch e.Action {
	case fusebox.ActionRenewed:
		if i >= 0 {
			o.leases[i].Until = e.Until
		}
		return
	case fusebox.ActionReleased:
		if i >= 0 {
			o.leases = slices.Delete(o.leases, i, i+1)
		}
		return
	}
	if o.hold != nil || i >= 0 || t.Before(o.throttled) {
		return
	}
	grant := fusebox.Lease{Token: e.Lease, At: t, Until: e.Until, Worker: e.Worker, Pick: e.Pick}
	switch {
	case o.phase == fusebox.Open && o.due(t):
		o.phase, o.since, o.until = fusebox.HalfOpen, t, time.Time{}
		o.version++
	case o.phase == fusebox.Open && e.LastResort && !o.resortUsed:
		o.phase, o.since, o.resortUsed, grant.Resort = fusebox.HalfOpen, t, true, true
		o.version++
	case o.phase == fusebox.HalfOpen && len(o.live(t)) < o.p.probe.Concurrent:
		o.leases = o.live(t)
	default:
		return
	}
	o.leases = append(o.leases, grant)
}

func (o *oracle) live(t time.Time) []fusebox.Lease {
	var live []fusebox.Lease
	for _, l := range o.leases {
		if l.Until.IsZero() || t.Before(l.Until) {
			live = append(live, l)
		}
	}
	return live
}

// due: the cooldown is over at its deadline itself, or it was already over
// when this version began.
func (o *oracle) due(t time.Time) bool {
	if o.until.IsZero() {
		return o.refused >= o.p.cooldown.Calls
	}
	return !t.Before(o.until) || !o.until.After(o.since)
}

func (o *oracle) override(e fusebox.Event, t time.Time) {
	if e.Action == fusebox.ActionLifted {
		if o.hold != nil {
			o.hold, o.since = nil, t
			o.version++
		}
		return
	}
	if e.Phase == fusebox.Closed {
		o.phase, o.until, o.votes, o.openedBy = fusebox.Closed, time.Time{}, nil, 0
	} else {
		counting := o.phase == fusebox.Open && o.until.IsZero()
		if !counting && (o.phase != fusebox.Open || o.until.Before(t)) {
			o.until = t
		}
		o.phase = fusebox.Open
	}
	o.leases, o.since = nil, t
	o.hold = &fusebox.Hold{To: e.Phase, At: t, Until: e.Until, Reason: e.Cause}
	o.version++
}

func (o *oracle) open(t time.Time, count int) {
	if o.phase == fusebox.Closed {
		o.denied = 0
	}
	o.phase, o.since, o.openedBy = fusebox.Open, t, count
	o.version++
	o.votes, o.leases = nil, nil
	o.refused, o.passed, o.resortUsed = 0, 0, false
	o.until = time.Time{}
	if o.p.cooldown.Calls == 0 {
		o.until = t.Add(o.cooldown())
	}
}

func (o *oracle) close(t time.Time) {
	o.phase, o.since, o.until = fusebox.Closed, t, time.Time{}
	o.version++
	o.votes, o.leases = nil, nil
	o.openedBy, o.failedProbes, o.refused, o.passed, o.resortUsed = 0, 0, 0, 0, false
}

// cooldown is the base, multiplied once for every failed probe, without jitter.
func (o *oracle) cooldown() time.Duration {
	d := o.p.cooldown.After
	for range o.failedProbes {
		if o.p.cooldown.Growth > 1 {
			d *= time.Duration(o.p.cooldown.Growth)
		}
		if o.p.cooldown.Max > 0 {
			d = min(d, o.p.cooldown.Max)
		}
	}
	return d
}

func (o *oracle) decide(t time.Time) fusebox.Decision {
	held := o.held(t)
	switch {
	case held && o.hold.To == fusebox.Open:
		d := fusebox.Decision{Reason: fusebox.ReasonHeld}
		if !o.hold.Until.IsZero() {
			d.RetryAfter = o.hold.Until.Sub(t)
		}
		return d
	case t.Before(o.throttled):
		return fusebox.Decision{Reason: fusebox.ReasonThrottled, RetryAfter: o.throttled.Sub(t)}
	case held || o.phase == fusebox.Closed:
		return fusebox.Decision{Go: true}
	}
	after := o.afterHold(t)
	if after.phase == fusebox.Open {
		if after.due(t) {
			return fusebox.Decision{Probe: true}
		}
		d := fusebox.Decision{Reason: fusebox.ReasonOpen}
		if !after.until.IsZero() {
			d.RetryAfter = min(after.until.Sub(t), after.until.Sub(after.since))
		}
		return d
	}
	live := after.live(t)
	if len(live) < after.p.probe.Concurrent {
		return fusebox.Decision{Probe: true}
	}
	d := fusebox.Decision{Reason: fusebox.ReasonProbing}
	for _, l := range live {
		if left := l.Until.Sub(t); !l.Until.IsZero() && (d.RetryAfter == 0 || left < d.RetryAfter) {
			d.RetryAfter = left
		}
	}
	return d
}

// afterHold is the oracle with a hold that has run out by t taken off.
func (o *oracle) afterHold(t time.Time) *oracle {
	after := *o
	after.step(fusebox.Event{Kind: "look", At: t})
	return &after
}

// differs compares what Fold made of the history with what the oracle made of
// it, at the instants given, and says the first difference.
func (o *oracle) differs(s *fusebox.State, instants []time.Time) string {
	type view struct {
		Phase                                 fusebox.Phase
		Version                               uint64
		Since, Until, Throttled, Checked      time.Time
		FailedProbes, Refused, Denied, Passed int
		Resort                                bool
		Leases                                []fusebox.Lease
		Hold                                  string
		LastError                             string
	}
	hold := func(h *fusebox.Hold) string {
		if h == nil {
			return "none"
		}
		return fmt.Sprint(*h)
	}
	want := view{o.phase, o.version, o.since, o.until, o.throttled, o.checked,
		o.failedProbes, o.refused, o.denied, o.passed, o.resortUsed, o.leases, hold(o.hold), o.lastError}
	have := view{s.Phase, s.Version, s.Since, s.Until, s.Throttled, s.Checked,
		s.FailedProbes, s.Refused, s.Denied, s.Passed, s.Resort, s.Leases, hold(s.Hold), s.LastError}
	if w, h := fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", have); w != h {
		return fmt.Sprintf("state\nwant %s\nhave %s", w, h)
	}
	for _, t := range instants {
		if w, h := o.decide(t), s.Decide(t); w != h {
			return fmt.Sprintf("decision at %v: want %+v, have %+v", t, w, h)
		}
		if w, h := o.count(t), s.CountAt(t); w != h {
			return fmt.Sprintf("count at %v: want %d, have %d", t, w, h)
		}
		if w, h := o.health(t), s.HealthAt(t); w != h {
			return fmt.Sprintf("health at %v: want %v, have %v", t, w, h)
		}
	}
	return ""
}

func (o *oracle) health(t time.Time) fusebox.Health {
	phase := o.phase
	if o.held(t) {
		phase = o.hold.To
	}
	switch {
	case phase != fusebox.Closed:
		return fusebox.Down
	case o.checked.IsZero():
		return fusebox.Unknown
	}
	return fusebox.Up
}

func newest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
