package fusebox

import (
	"sync"
	"time"
)

// Permit is the right to make one call, given by [Circuit.Allow]. Report the
// call's result with Done. It is a small value: copy it, keep it, drop it.
// Dropping one is harmless: a probe's slot comes back when its lease lapses.
//
// A second Done on a probe's permit does nothing. On an ordinary permit it
// cannot be told from another call and counts again.
type Permit struct {
	epoch  *epoch
	flight *flight // of a probe, or of a call that may become overdue
	start  int64   // nanoseconds on the box's clock; 0 = not measured
}

// flight is a call that must be told apart from all others.
type flight struct {
	lease   string // "" = not a probe
	overdue *time.Timer

	mu      sync.Mutex
	counted bool // its overdue failure was counted
	done    bool
}

// settle marks the flight as done and reports whether it was counted already,
// and whether this is not the first report.
func (f *flight) settle() (counted, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.overdue != nil {
		f.overdue.Stop()
	}
	counted, again = f.counted, f.done
	f.done = true
	return counted, again
}

// Answering tells that the answer has begun to come: from now on the call is
// not overdue, however long the whole takes. Its result is still Done's to tell.
// It is safe for concurrent use.
func (p Permit) Answering() {
	if f := p.flight; f != nil && f.overdue != nil {
		f.overdue.Stop()
	}
}

// Probe reports whether the permit is a probe's: the call decides whether the
// circuit closes.
func (p Permit) Probe() bool { return p.flight != nil && p.flight.lease != "" }

// Renew gives a probe another lease from now on: call it now and then while a
// call goes on that may outlast its lease, as a long stream does. It does
// nothing for other permits, and for a probe whose slot was taken over.
func (p Permit) Renew() {
	if !p.Probe() {
		return
	}
	c := p.epoch.circuit
	length := c.policy.Load().Probe.Lease
	if length == 0 {
		return
	}
	now := c.box.now()
	c.enter(now, true, Event{Kind: KindLease, Action: ActionRenewed, At: now, Lease: p.flight.lease, Until: now.Add(length)})
}

// Done reports the call's result. It is safe for concurrent use.
func (p Permit) Done(r Result) {
	e := p.epoch
	if e == nil {
		return
	}
	if r.Outcome == Success && r.Attempts <= 1 {
		if e.mode == modePlain && p.flight == nil { // as counted, without the call
			e.ok.add()
			return
		}
		if p.counted() {
			return
		}
	}
	c := e.circuit
	c.report(p, c.box.now(), r, true)
}

// counted counts a success, and reports false where it takes more than that.
func (p Permit) counted() bool {
	e := p.epoch
	if e == nil || p.flight != nil {
		return false
	}
	switch e.mode {
	case modePlain:
		e.ok.add()
		return true
	case modeWindow:
		if e.circuit.cur.Load() == e && e.circuit.box.mono() < e.bucketEnd.Load() {
			e.ok.add()
			return true
		}
	case modeTimed:
		now := e.circuit.box.mono()
		elapsed := now - p.start
		if e.circuit.cur.Load() == e && now < e.bucketEnd.Load() && elapsed <= e.slow && p.start != 0 {
			e.ok.addTimed(elapsed)
			return true
		}
	}
	return false
}

// DoneAt is Done at a time of the caller's choosing; see [Circuit.AllowAt].
func (p Permit) DoneAt(t time.Time, r Result) {
	if p.epoch == nil {
		return
	}
	p.epoch.circuit.report(p, t, r, false)
}

// Valid reports whether the circuit still lets through the call that the
// permit is for: it has not opened, been throttled or held open since, and a
// probe's lease has not lapsed. For those who repeat an attempt under one
// permit.
func (p Permit) Valid() bool {
	e := p.epoch
	if e == nil {
		return false
	}
	c := e.circuit
	if c.cur.Load() == e && e.mode != modeLocked && e.mode != modeRefuse {
		return true
	}
	c = c.lock()
	defer c.mu.Unlock()
	t := c.box.now()
	c.collect(t)
	s := c.deciding()
	if p.Probe() {
		i := s.lease(p.flight.lease)
		return i >= 0 && s.Version == e.version && s.Leases[i].live(t) && !t.Before(s.Throttled)
	}
	return s.Decide(t).Go || c.observes()
}

// doneAs is Done or DoneAt.
func (p Permit) doneAs(t time.Time, live bool, r Result) {
	if live {
		p.Done(r)
	} else {
		p.DoneAt(t, r)
	}
}

// event is the evidence of a result.
func (p Permit) event(t time.Time, r Result) Event {
	e := Event{
		At: t, Outcome: r.Outcome, Class: r.Class, Attempts: r.Attempts, Run: r.Run, Call: r.Call,
		Admitted: true, Version: p.epoch.version,
	}
	if r.Outcome == Throttled || r.Outcome == Failure {
		e.Until = r.NotBefore
	}
	if p.start != 0 {
		e.Elapsed = max(t.Sub(p.epoch.circuit.box.base)-time.Duration(p.start), 0)
	}
	if p.flight != nil {
		e.Lease = p.flight.lease
	}
	return e
}
