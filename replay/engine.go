package replay

import (
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// engine puts calls to their circuits in the order of time.
type engine struct {
	circuits []*circuit
	flights  heap[flight]
	changed  func(fusebox.Transition) error
	reported func(circuit int32, at int64) // after each report; nil = nobody asks
	event    fusebox.Event                 // used again and again
	probes   int                           // for tokens
}

// circuit is one circuit under replay.
type circuit struct {
	state   fusebox.State
	summary Summary
}

// flight is an admitted call that has not reported yet.
type flight struct {
	call    call
	report  int64 // when it does: at its end, or when it is overdue
	overdue bool
	version uint64 // at admission
	lease   string // of a probe
}

func newEngine(changed func(fusebox.Transition) error) *engine {
	e := &engine{changed: changed}
	e.flights.before = func(a, b *flight) bool {
		if a.report != b.report {
			return a.report < b.report
		}
		return compareLog(&a.call, &b.call) < 0
	}
	return e
}

// add begins a circuit; its index is the next one.
func (e *engine) add(name string, p fusebox.Policy, seed uint64) {
	e.circuits = append(e.circuits, &circuit{
		state:   fusebox.State{Policy: p, Seed: seed},
		summary: Summary{Circuit: name},
	})
}

// start asks the circuit for c, once all that ended before has reported.
// Calls come in the order of their starts.
func (e *engine) start(c *call) error {
	if err := e.reportUntil(c.start); err != nil {
		return err
	}
	k := e.circuits[c.circuit]
	k.summary.Calls++
	f := flight{call: *c, report: c.end}
	admitted, err := e.ask(k, &f)
	if err != nil {
		return err
	}
	if !admitted {
		k.summary.deny(c.outcome)
		return nil
	}
	k.summary.admit(c.outcome)
	if limit := k.state.Policy.Overdue; limit > 0 && c.elapsed() > limit {
		f.report, f.overdue = c.start+int64(limit), true
	}
	if f.report == c.start {
		return e.report(&f)
	}
	e.flights.push(f)
	return nil
}

// ask decides on f at its start and fills in its permit.
func (e *engine) ask(k *circuit, f *flight) (admitted bool, err error) {
	at := moment(f.call.start)
	d := k.state.Decide(at)
	switch {
	case d.Go:
	case d.Probe:
		e.probes++
		f.lease = "probe-" + strconv.Itoa(e.probes)
		grant := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Lease: f.lease}
		if lease := k.state.Policy.Probe.Lease; lease > 0 {
			grant.Until = at.Add(lease)
		}
		k.summary.Probes++
		if err := e.apply(k, &grant); err != nil {
			return false, err
		}
	default:
		e.event = fusebox.Event{Kind: fusebox.KindDenied, At: at, Reason: d.Reason}
		return false, e.apply(k, &e.event)
	}
	f.version = k.state.Version
	return true, nil
}

// reportUntil lets every call report that ends at or before t.
func (e *engine) reportUntil(t int64) error {
	for !e.flights.empty() && e.flights.first().report <= t {
		f := e.flights.pop()
		if err := e.report(&f); err != nil {
			return err
		}
	}
	return nil
}

// finish lets all calls report that are still in flight.
func (e *engine) finish() error {
	for !e.flights.empty() {
		if err := e.reportUntil(e.flights.first().report); err != nil {
			return err
		}
	}
	return nil
}

// report folds the result of an admitted call.
func (e *engine) report(f *flight) error {
	c := &f.call
	e.event = fusebox.Event{
		At: moment(f.report), Outcome: c.outcome, Class: c.className(), Elapsed: c.elapsed(),
		Admitted: true, Version: f.version, Lease: f.lease,
	}
	switch {
	case f.overdue:
		e.event.Outcome, e.event.Class, e.event.Overdue = fusebox.Failure, fusebox.ClassTimeout, true
		e.event.Elapsed = time.Duration(f.report - c.start)
	case c.outcome == fusebox.Throttled:
		e.event.Outcome = fusebox.Canceled // neutral, and replay sets no throttle
	}
	k := e.circuits[c.circuit]
	if c.exact != 0 && k.state.Policy.Distinct {
		e.event.Call = strconv.FormatUint(c.exact, 36)
	}
	if e.reported != nil {
		defer e.reported(c.circuit, f.report)
	}
	return e.apply(k, &e.event)
}

// apply folds ev and tells of the transition that it caused.
func (e *engine) apply(k *circuit, ev *fusebox.Event) error {
	before := fusebox.State{Phase: k.state.Phase, Version: k.state.Version}
	k.state.Apply(ev)
	if k.state.Version == before.Version {
		return nil
	}
	t, _ := fusebox.Changed(k.summary.Circuit, &before, &k.state)
	switch {
	case t.From == fusebox.Closed && t.To == fusebox.Open:
		k.summary.Opened++
	case t.From == fusebox.HalfOpen && t.To == fusebox.Open:
		k.summary.ProbesFailed++
	}
	if e.changed == nil {
		return nil
	}
	return e.changed(t)
}

func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }
