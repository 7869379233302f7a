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
	expires time.Time
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

// Probe reports whether the permit is a probe's: the call decides whether the
// circuit closes.
func (p Permit) Probe() bool { return p.flight != nil && p.flight.lease != "" }

// Done reports the call's result. It is safe for concurrent use.
func (p Permit) Done(r Result) {
	e := p.epoch
	if e == nil {
		return
	}
	if r.Outcome == Success && p.flight == nil && r.Attempts <= 1 {
		switch e.mode {
		case modePlain:
			e.ok.add()
			return
		case modeWindow:
			if e.circuit.cur.Load() == e && e.circuit.box.mono() < e.bucketEnd.Load() {
				e.ok.add()
				return
			}
		case modeTimed:
			now := e.circuit.box.mono()
			elapsed := now - p.start
			if e.circuit.cur.Load() == e && now < e.bucketEnd.Load() && elapsed <= e.slow && p.start != 0 {
				e.ok.addTimed(elapsed)
				return
			}
		}
	}
	c := e.circuit
	c.report(p, c.box.now(), r, true)
}

// DoneAt is Done at a time of the caller's choosing; see [Circuit.AllowAt].
func (p Permit) DoneAt(t time.Time, r Result) {
	if p.epoch == nil {
		return
	}
	p.epoch.circuit.report(p, t, r, false)
}

// event is the evidence of a result.
func (p Permit) event(t time.Time, r Result) Event {
	e := Event{
		At: t, Outcome: r.Outcome, Class: r.Class, Attempts: r.Attempts, Run: r.Run, Call: r.Call,
		Admitted: true, Version: p.epoch.version,
	}
	if r.Outcome == Throttled {
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
