package fusebox

import (
	"context"
	"fmt"
	"time"
)

// Guard is what [Call] does around one circuit, besides the circuit's policy.
type Guard struct {
	Identify   []string // the arguments that make a call what it is, see [SignatureOptions]; none = all
	ThrashOff  bool     // no thrash detection: a local, deterministic tool needs none
	StopRun    bool     // an open circuit stops the run instead of degrading it: it cannot go on without this
	PerAttempt bool     // each attempt asks the circuit and reports to it; else the circuit's unit is the call with its retries
}

// guarded is what the guard keeps of one circuit.
type guarded struct {
	Guard
	signer    *signer
	allowance *Allowance
	drift     Drift
}

// guarded returns what the guard keeps of c, making it at the first call.
func (c *Circuit) guarded() *guarded {
	if g := c.guard.Load(); g != nil {
		return g
	}
	rs := c.box.runs
	g := &guarded{signer: rs.signer, allowance: NewAllowance(rs.retry.Budget)}
	if c.box.cfg.Guard != nil {
		g.Guard = c.box.cfg.Guard(c.name)
	}
	if len(g.Identify) > 0 {
		g.signer = newSigner(SignatureOptions{Ignore: rs.thrash.Ignore, Identify: g.Identify})
	}
	c.guard.CompareAndSwap(nil, g)
	return c.guard.Load()
}

// PerAttempt reports whether each attempt of a call asks the circuit and
// reports to it, see [Guard]: for fronts that make attempts of their own.
func (c *Circuit) PerAttempt() bool { return c.guarded().PerAttempt }

// StopsRun reports whether a run cannot go on while the circuit is open, see
// [Guard]: for fronts that have several to choose from.
func (c *Circuit) StopsRun() bool { return c.guarded().StopRun }

// Call is the whole guard around f, one call of a run. The order is the
// control:
//
//	stuck run? ── thrash? ── throttled? ── circuit? ── retry( timeout( f ) ) ── one evidence record
//
// args are what f is called for, as f would see them in JSON: they tell one
// call from another, see [Signature]. f must end when its context does.
//
// The error is f's own, of the last attempt, or a *[Denial] if f was not
// called. A panic of f is a failure and goes on panicking; runtime.Goexit
// counts as canceled. A caller whose ctx is done already gets its error, and f
// is not called.
func Call[T any](ctx context.Context, r *Run, c *Circuit, args any, f func(context.Context) (T, error)) (T, error) {
	var v T
	err := r.call(ctx, c, args, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// RunPermit is the right to make one call of a run, given by [Run.Allow]. As a
// [Permit] it may be copied and dropped; report the call's result with Done.
type RunPermit struct {
	run     *Run
	circuit *Circuit
	permit  Permit
	call    string // signature
	start   uint64 // moment of the run's history
}

// Allow asks whether a call may be made with args, in the guard's order: is
// the run stuck, does this call thrash, is the circuit throttled or open. It is
// for those who cannot use [Call], which adds retries and time limits. The
// error is a *[Denial], or ctx's error.
func (r *Run) Allow(ctx context.Context, c *Circuit, args any) (RunPermit, error) {
	if err := ctx.Err(); err != nil {
		return RunPermit{}, err
	}
	return r.allow(ctx, r.box.now(), true, c, args)
}

// AllowAt is Allow at a time of the caller's choosing; see [Circuit.AllowAt].
// Report such a permit with [RunPermit.DoneAt].
func (r *Run) AllowAt(t time.Time, c *Circuit, args any) (RunPermit, error) {
	return r.allow(context.Background(), t, false, c, args)
}

func (r *Run) allow(ctx context.Context, t time.Time, live bool, c *Circuit, args any) (RunPermit, error) {
	p := RunPermit{run: r, circuit: c}
	g := c.guarded()
	if !g.ThrashOff || c.policy.Load().Distinct {
		p.call = g.signer.sign(c.name, args)
	}
	if err := r.going(ctx, t, live, c); err != nil {
		return RunPermit{}, err
	}
	if err := r.thrashes(&p, t, live, g); err != nil {
		return RunPermit{}, err
	}
	var err error
	p.permit, err = c.allowAs(ctx, t, live)
	if d := AsDenial(err); d != nil {
		return RunPermit{}, r.refused(*d, c, t, live, nil)
	}
	return p, err
}

// thrashes begins the call's moment, and refuses the call if its like has
// failed too often.
func (r *Run) thrashes(p *RunPermit, t time.Time, live bool, g *guarded) error {
	r.mu.Lock()
	p.start = r.history.now()
	if g.ThrashOff {
		r.mu.Unlock()
		return nil
	}
	m, script := r.history.check(p.circuit.name, p.call, t, p.circuit.closedSince)
	if m == nil {
		r.mu.Unlock()
		return nil
	}
	d := Denial{circuit: p.circuit.name, reason: ReasonThrash, script: script, failures: m.failures, last: m.last,
		until: m.at.Add(r.box.runs.thrash.Forget), now: r.box.now}
	if !live {
		d.now = func() time.Time { return t }
	}
	if p.circuit.observes() {
		r.mu.Unlock()
		p.circuit.enter(t, live, Event{Kind: KindDenied, At: t, Reason: ReasonThrash, Run: r.id, Observed: true})
		return nil
	}
	r.mu.Unlock()
	return r.refused(d, p.circuit, t, live, m)
}

// Refused notes that a call of c was refused, and not by [Run.Allow]: by another
// circuit that it had to pass as well, as that of the server which a tool is on,
// or by c, asked by a front that asks several. It counts for the run as a refusal
// by Allow would, and the error is d as the run is to be told it. Give back as
// [Canceled] what permit of c there is.
func (r *Run) Refused(c *Circuit, d *Denial) error {
	return r.refused(*d, c, r.box.now(), true, nil)
}

// refused notes a refusal, words it for this run, and stops the run that
// ignores too many. m is the mishap that it is for, nil if it is the circuit's.
func (r *Run) refused(d Denial, c *Circuit, t time.Time, live bool, m *mishap) error {
	r.mu.Lock()
	times := r.history.refused(c.name, m)
	r.denied++
	r.since = t
	d.run, d.texts, d.times = r.id, r.box.runs.thrash.Texts, times
	d.working = r.history.working(c.name, d.circuit)
	ignored := r.history.denied
	stop := r.history.ignored()
	r.mu.Unlock()

	if m != nil { // else the circuit has recorded it
		c.enter(t, live, Event{Kind: KindDenied, At: t, Reason: d.reason, Run: r.id})
	}
	if record := r.record(); record != nil {
		record.enter(t, live, Event{Kind: KindDenied, At: t, Reason: d.reason, Cause: c.name})
	}
	switch {
	case stop:
		r.stop(t, live, fmt.Sprintf("it went on after %s", plural(ignored, "refusal")))
	case (d.reason == ReasonOpen || d.reason == ReasonHeld) && r.needs(c, d.circuit):
		r.stop(t, live, "it cannot go on without "+toolName(d.circuit))
	}
	return &d
}

// needs reports whether the run cannot go on without c, or without the circuit
// that refused a call of c.
func (r *Run) needs(c *Circuit, refusing string) bool {
	if c.guarded().StopRun || refusing == c.name {
		return c.guarded().StopRun
	}
	by, err := r.box.Circuit(refusing)
	return err == nil && by.guarded().StopRun
}

// Valid reports whether the circuit still lets the call through: for those who
// retry under one permit, before every further attempt.
func (p RunPermit) Valid() bool { return p.permit.Valid() }

// Probe reports whether the call is a probe, which decides whether the circuit
// closes.
func (p RunPermit) Probe() bool { return p.permit.Probe() }

// Call returns the call's signature; "" where none is needed.
func (p RunPermit) Call() string { return p.call }

// Done reports the call's result. Run and Call need not be set in it. It is
// safe for concurrent use.
func (p RunPermit) Done(res Result) {
	if p.run != nil {
		p.done(p.run.box.now(), true, res, true)
	}
}

// DoneAt is Done at a time of the caller's choosing; see [Run.AllowAt].
func (p RunPermit) DoneAt(t time.Time, res Result) {
	if p.run != nil {
		p.done(t, false, res, true)
	}
}

// done tells the circuit, if it is still to be told, and the run.
func (p RunPermit) done(t time.Time, live bool, res Result, tell bool) {
	res.Run, res.Call = p.run.id, p.call
	if tell {
		p.permit.doneAs(t, live, res)
	}
	g := p.circuit.guarded()
	p.run.learn(p, t, live, res, g)
	failed, worked := max(res.Attempts, 1)-1, 0
	switch res.Outcome {
	case Success, Rejected:
		worked = 1
	case Failure:
		failed++
	}
	if !g.drift.Add(failed, worked) {
		return
	}
	notice := Notice{At: t, Kind: NoticeSteady, Circuit: p.circuit.name}
	if g.drift.Degrading() {
		notice.Kind, notice.Text = NoticeDegrading, "its calls fail more often than they used to"
	}
	p.run.box.notify(notice)
}

// learn takes a result into the run's history.
func (r *Run) learn(p RunPermit, t time.Time, live bool, res Result, g *guarded) {
	name := p.circuit.name
	switch {
	case res.Outcome == Success:
		r.mu.Lock()
		r.history.worked(name, p.call)
		r.struggling = false
		r.mu.Unlock()
		return
	case res.Outcome != Rejected && res.Outcome != Failure:
		return
	}
	closed := p.circuit.closedSince
	version := p.circuit.version()
	rules := &r.box.runs.thrash
	r.mu.Lock()
	if g.ThrashOff {
		r.history.tool(name).works = false
		r.mu.Unlock()
		return
	}
	inRow := r.history.failed(name, p.call, p.start, t, version, res.Err, closed)
	news := rules.Struggling > 0 && inRow >= rules.Struggling && !r.struggling
	r.struggling = r.struggling || news
	stop := rules.StuckAfterFailures > 0 && inRow == rules.StuckAfterFailures
	r.mu.Unlock()
	why := fmt.Sprintf("%d calls in a row failed", inRow)
	if news {
		r.box.notify(Notice{At: t, Kind: NoticeStruggling, Run: r.id, Text: why})
	}
	if stop {
		r.stop(t, live, why)
	}
}
