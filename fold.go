package fusebox

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// Fold returns the state after e. It is the one place where evidence becomes
// state: the in-process circuit, every store, `why`, the panel and `replay` all
// use it, so none of them can mean something else by "failures". It is pure:
// time comes with the event, and jitter from the state's seed.
//
// A zero p means the policy in s. Otherwise the one that was loaded later
// rules, and is kept in the state.
func Fold(p Policy, s State, e Event) State {
	s = s.clone()
	s.adopt(p, e.Circuit)
	s.apply(&e)
	return s
}

// adopt settles by which policy the state is folded.
func (s *State) adopt(p Policy, circuit string) {
	switch {
	case p.IsZero() && s.Policy.IsZero():
		s.Policy = DefaultPolicy(Kind(circuit))
	case p.IsZero(), p.Loaded.Before(s.Policy.Loaded):
	case p.Equal(s.Policy): // said again, as every start of a session does: nothing changes
	default:
		if !slices.Equal(p.Trip, s.Policy.Trip) {
			s.Windows = nil // their buckets were counted for other rules
			for i := range s.Hosts {
				if own := s.Hosts[i].Own; own != nil {
					own.Windows = nil
				}
			}
		}
		if p.Quorum <= 1 {
			s.Hosts, s.LastProber = nil, ""
		}
		s.Policy = p
	}
}

// Apply folds e into s itself, by the policy in s. It is Fold for who owns the
// state and need not keep the one before.
func (s *State) Apply(e *Event) { s.apply(e) }

// apply is Fold in place, by the policy in the state.
func (s *State) apply(e *Event) {
	if s.Policy.IsZero() {
		s.Policy = DefaultPolicy(Kind(e.Circuit))
	}
	e.utc()
	t := e.clock()
	s.endHold(t)
	s.Revision++
	version := s.Version
	if s.Policy.Quorum > 1 && e.isReport() {
		s.sees(e, t)
	}
	switch e.Kind {
	case KindEvidence:
		s.evidence(e, t)
	case KindLease:
		s.setBack(t)
		s.applyLease(e, t)
	case KindDenied:
		s.setBack(t)
		s.denied(e)
	case KindThrottle:
		s.throttle(e.Until, t)
		s.Throttles = 0
	case KindHold:
		s.hold(e, t)
	case KindTrip:
		if s.Hold == nil {
			s.Failures = s.CountAt(t)
			s.FailedProbes = 0
			s.open(t, e.tripCause())
		}
	case KindReset:
		if s.Hold == nil {
			s.close(t, because("operator", e.Cause))
			s.Throttled, s.Throttles = time.Time{}, 0
		}
	case KindCheckpoint:
		s.checkpoint(e)
	default:
		s.Revision-- // it changes nothing
	}
	if s.Policy.Quorum > 1 && s.Phase == Closed && s.Hold == nil && s.Version == version {
		s.applyOwn(e)
	}
}

// tripCause says who opened the circuit: an operator, or for a run's record the
// guard, whose cause speaks for itself.
func (e *Event) tripCause() string {
	if e.Run != "" && e.Cause != "" {
		return e.Cause
	}
	return because("operator", e.Cause)
}

func because(who, why string) string {
	if why == "" {
		return who
	}
	return who + ": " + why
}

// evidence folds one result, or a run of successes.
func (s *State) evidence(e *Event, t time.Time) {
	s.note(e)
	if t.After(s.Latest) {
		s.Latest = t
	}
	if e.Outcome == Throttled || e.Outcome == Failure && !e.Until.IsZero() {
		s.throttled(e, t) // it is no vote: how old the call is does not matter
	}
	if e.Late {
		return
	}
	if e.Outcome == Canceled || e.Outcome == Throttled {
		s.release(e)
		return
	}
	if s.Hold != nil || s.Phase == Open {
		return // held, or refused: results change neither phase nor deadline
	}
	failed := s.failed(e)
	if s.Phase == HalfOpen {
		s.verdict(e, t, failed)
		return
	}
	if !s.votes(e) {
		return
	}
	if !failed {
		s.worked(e)
		s.tripIfMet(t, true)
		return
	}
	s.blame(e)
	if e.Class != "" && s.onClass(e.Class) && s.classQuorate(t) {
		s.Failures, s.FailedProbes = 1, 0
		s.open(t, "class "+string(e.Class))
		return
	}
	if s.mark(e, t) {
		s.tripIfMet(t, false)
	}
}

// failed reports whether e is a failure to this circuit.
func (s *State) failed(e *Event) bool {
	if e.Outcome != Failure {
		return false
	}
	limit := s.Policy.FasterThan
	return limit == 0 || e.Elapsed <= limit
}

// votes reports whether e counts in the present version: its call was admitted
// in it or, without a permit, began in it.
func (s *State) votes(e *Event) bool {
	if e.Lease != "" {
		return false // a probe's report that outlived its half-open phase
	}
	if e.Admitted {
		return e.Version == s.Version
	}
	return !e.start().Before(s.Since)
}

// note keeps what health shows; it needs no vote.
func (s *State) note(e *Event) {
	if e.Outcome == Canceled {
		return
	}
	at := e.clock() // a time that lies in the future is a clock's mistake
	if at.After(s.Checked) {
		s.Checked = at
	}
	switch e.Outcome {
	case Success, Rejected:
		if e.Elapsed > 0 {
			s.Latency = average(s.Latency, e.Elapsed, e.count())
		}
		if e.Outcome == Success && !e.Late {
			s.Throttles = 0
		}
	case Failure:
		s.LastClass = e.Class
		s.LastFailure = at
		if s.LastError = e.Error; e.Error == "" {
			s.LastError = string(e.Class)
		}
	}
}

// average folds n calls of the given latency into a moving average with a
// weight of one fifth a call.
func average(old, latency time.Duration, n int) time.Duration {
	if old == 0 {
		return latency
	}
	keep := math.Pow(0.8, float64(n))
	return latency + time.Duration(keep*float64(old-latency))
}

// verdict takes a probe's report: it settles the half-open phase or one of the
// successes that it needs.
func (s *State) verdict(e *Event, t time.Time, failed bool) {
	i := s.settles(e)
	if i < 0 {
		return
	}
	lease := s.Leases[i]
	if failed {
		if lease.Resort {
			s.reopen(t, "last resort failed")
			return
		}
		s.FailedProbes++
		if s.Policy.Quorum > 1 {
			s.LastProber = HostOf(lease.Worker)
		}
		s.open(t, "probe failed")
		return
	}
	s.dropLease(i)
	if s.Passed++; s.Passed >= s.Policy.Probe.CloseAfter {
		s.close(t, "probe succeeded")
	}
}

// pickSlack is how much longer than it was a report may say that a call took:
// shells count whole seconds.
const pickSlack = time.Second

// settles returns the index of the lease that e reports on, or -1: its own, or
// for a report without a permit the one that was handed out to be picked up.
func (s *State) settles(e *Event) int {
	if e.Lease != "" {
		if e.Version != s.Version {
			return -1
		}
		return s.lease(e.Lease)
	}
	if e.Admitted {
		return -1
	}
	for i := range s.Leases {
		if l := &s.Leases[i]; l.Pick && !e.start().Before(l.At.Add(-pickSlack)) {
			return i
		}
	}
	return -1
}

func (s *State) dropLease(i int) { s.Leases = append(s.Leases[:i:i], s.Leases[i+1:]...) }

// release gives back the slot of a probe that decided nothing.
func (s *State) release(e *Event) {
	if s.Phase != HalfOpen {
		return
	}
	if i := s.settles(e); i >= 0 {
		s.dropLease(i)
	}
}

// applyLease grants, renews or gives back a probe's slot. Whether a grant was
// given is read from the state: see [State.HasLease].
func (s *State) applyLease(e *Event, t time.Time) {
	switch e.Action {
	case ActionRenewed:
		if i := s.lease(e.Lease); i >= 0 {
			s.Leases = append([]Lease(nil), s.Leases...)
			s.Leases[i].Until = e.Until
		}
		return
	case ActionReleased:
		if i := s.lease(e.Lease); i >= 0 {
			s.dropLease(i)
		}
		return
	case ActionGranted:
	default:
		return
	}
	if s.Hold != nil || t.Before(s.Throttled) || e.Lease == "" || s.HasLease(e.Lease) {
		return
	}
	grant := Lease{Token: e.Lease, At: t, Until: e.Until, Worker: e.Worker, Pick: e.Pick}
	switch {
	case s.Phase == Open && s.For(e.Worker).due(t):
		s.move(HalfOpen, t, "cooldown over")
		s.Until = time.Time{}
	case s.Phase == Open && e.LastResort && !s.Resort:
		grant.Resort = true
		s.move(HalfOpen, t, "last resort")
		s.Resort = true
	case s.Phase == HalfOpen && s.freeSlots(t) > 0:
		s.dropLapsed(t)
	default:
		return
	}
	s.Leases = append(s.Leases[:len(s.Leases):len(s.Leases)], grant)
}

func (s *State) dropLapsed(t time.Time) {
	var kept []Lease
	for _, l := range s.Leases {
		if l.live(t) {
			kept = append(kept, l)
		}
	}
	s.Leases = kept
}

// mostBehind is how long before a cooldown began the report of a refusal may lie
// and yet be only late. Further back, the clock was set back.
const mostBehind = time.Minute

// setBack begins a cooldown or a lease again at t, if somebody is refused or
// asks for a probe long before it began: the clock was set back, and they would
// last until it has caught up.
func (s *State) setBack(t time.Time) {
	again := func(since, until *time.Time) {
		if until.IsZero() || since.Sub(t) <= mostBehind {
			return
		}
		*until = t.Add(max(until.Sub(*since), 0))
		*since = t
	}
	if s.Phase == Open {
		again(&s.Since, &s.Until)
	}
	for i := range s.Leases {
		again(&s.Leases[i].At, &s.Leases[i].Until)
	}
}

func (s *State) denied(e *Event) {
	if e.Run != "" {
		return // the guard refused that run, and not the circuit
	}
	s.Denied += e.count()
	if s.Phase == Open && e.Reason == ReasonOpen {
		s.Refused += e.count()
	}
}

// throttled sets the throttle that a result asks for. Where it named no time,
// the wait doubles from one second to a minute while that goes on.
func (s *State) throttled(e *Event, t time.Time) {
	if !e.Until.IsZero() {
		s.Throttles = 0
		if until := capThrottle(e.Until, t); until.After(s.Throttled) {
			s.Throttled = until
		}
		return
	}
	wait := min(time.Second<<min(s.Throttles, 6), time.Minute)
	s.Throttles++
	if until := t.Add(wait); until.After(s.Throttled) {
		s.Throttled = until
	}
}

// throttle sets or lifts an operator's throttle.
func (s *State) throttle(until, t time.Time) {
	if until.After(t) {
		s.Throttled = capThrottle(until, t)
		return
	}
	s.Throttled = time.Time{}
}

func capThrottle(until, t time.Time) time.Time {
	if latest := t.Add(MaxThrottle); until.After(latest) {
		return latest
	}
	return until
}

// hold begins or ends an operator's hold. Ending one leaves the phase: a
// circuit that was held open may be probed at once, unless its own cooldown
// runs longer.
func (s *State) hold(e *Event, t time.Time) {
	switch {
	case e.Action == ActionLifted && s.Hold != nil:
		s.Hold = nil
		s.move(s.Phase, t, because("hold lifted", e.Cause))
		return
	case e.Action != ActionHeld || e.Phase == HalfOpen:
		return
	}
	if e.Phase == Closed {
		s.clear()
		s.move(Closed, t, because("held closed", e.Cause))
		s.Until, s.LastProber = time.Time{}, ""
	} else {
		until := s.Until
		if s.Phase != Open || !s.countsRefusals() && until.Before(t) {
			until = t
		}
		s.move(Open, t, because("held open", e.Cause))
		s.Until = until
		s.forgive()
	}
	s.Leases = nil
	s.Hold = &Hold{To: e.Phase, At: t, Until: e.Until, Reason: e.Cause}
}

// endHold forgets a hold that has run out.
func (s *State) endHold(t time.Time) {
	if s.Hold == nil || s.Hold.active(t) {
		return
	}
	if s.Phase == Open && !s.countsRefusals() && s.Hold.Until.After(s.Until) {
		s.Until = s.Hold.Until
	}
	s.Hold = nil
}

// checkpoint takes over a recorded state, unless what is known is newer.
func (s *State) checkpoint(e *Event) {
	if e.State == nil || e.State.Version < s.Version {
		return
	}
	if e.State.Version == s.Version && e.State.Phase.closedOff() < s.Phase.closedOff() {
		return // of two states of one version the more closed-off one stands
	}
	policy, revision := s.Policy, s.Revision
	*s = e.State.clone()
	s.Revision = max(s.Revision, revision)
	s.adopt(policy, e.Circuit)
}

// closedOff orders phases by how little they let through.
func (p Phase) closedOff() int { return slices.Index([]Phase{Closed, HalfOpen, Open}, p) }

// open begins a new cooldown, from any phase.
func (s *State) open(t time.Time, cause string) {
	failures := s.Failures
	s.clear()
	s.Failures = failures
	if s.Phase == Closed {
		s.Denied = 0
	}
	s.move(Open, t, cause)
	s.Refused, s.Passed, s.Resort = 0, 0, false
	s.Leases = nil
	s.Until = time.Time{}
	if s.Policy.Cooldown.Calls == 0 {
		s.Until = t.Add(s.cooldown())
	}
}

// reopen returns to the cooldown that a last resort interrupted.
func (s *State) reopen(t time.Time, cause string) {
	s.move(Open, t, cause)
	s.Passed, s.Leases = 0, nil
}

// close ends an incident: what came before a controlled recovery counts no more.
func (s *State) close(t time.Time, cause string) {
	s.clear()
	s.move(Closed, t, cause)
	s.Failures, s.FailedProbes, s.Refused, s.Passed, s.Resort, s.LastProber = 0, 0, 0, 0, false, ""
	s.Leases = nil
	s.Until = time.Time{}
}

// move begins a new version.
func (s *State) move(to Phase, t time.Time, cause string) {
	s.Phase = to
	s.Version++
	s.Since = t
	s.Cause = cause
}

// clear forgets every mark, the hosts' own ones too.
func (s *State) clear() {
	s.Votes, s.Worked, s.Streak = 0, 0, 0
	s.Marks, s.times, s.Windows = nil, nil, nil
	s.Failures = 0
	s.forgive()
}

// cooldown is the length of the cooldown that begins now: the base, grown by
// the failed probes up to the maximum, plus jitter, which is uniform in
// 0..Jitter of it and never shortens it.
func (s *State) cooldown() time.Duration {
	c := s.Policy.Cooldown
	if c.After <= 0 {
		return 0 // not 0 times infinity, after enough failed probes
	}
	base := float64(c.After)
	if c.Growth > 1 {
		base *= math.Pow(c.Growth, float64(s.FailedProbes))
	}
	limit := float64(math.MaxInt64 / 4)
	if c.Max > 0 {
		limit = float64(c.Max)
	}
	base = min(base, limit)
	return time.Duration(base) + time.Duration(base*c.Jitter*uniform(s.Seed, s.Version))
}

// uniform is a number in [0, 1) that depends on seed and version alone,
// so that folding again gives the same deadline.
func uniform(seed, version uint64) float64 {
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(seed>>(8*i)), byte(version>>(8*i))
	}
	h.Write(b[:])
	x := h.Sum64()
	x ^= x >> 33 // FNV alone leaves the high bits of near inputs alike
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}
