package fusebox

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Circuit guards one dependency. Get one from [Box.Circuit]. Most callers want
// [Do], or [Call] for the whole guard; Allow and [Permit.Done] are the two
// steps under them. Its methods are safe for concurrent use.
type Circuit struct {
	box    *Box
	name   string
	policy atomic.Pointer[Policy]
	cur    atomic.Pointer[epoch]
	used   atomic.Bool // looked up since the box last swept
	guard  atomic.Pointer[guarded]

	mu   sync.Mutex
	gone bool    // evicted: the box may hold another circuit of this name
	d    *detail // nil while nothing is known; see detail
}

// detail is what only circuits need of which something is known.
type detail struct {
	state State       // as this process knows it: shared, folded with pending
	wake  *time.Timer // of the refusing epoch
	since time.Time   // up to when successes were collected: the present run began later
	told  told        // to listeners

	rawError, errorText string // of the last error

	*storeViews // nil without a store

	// With a store only.
	met     bool          // the store has been heard of this circuit
	pending []Event       // this process's events that the store has not acknowledged
	sent    int           // of these, how many are on their way, or may have arrived
	id      EventID       // of the newest event
	busy    bool          // an exchange with the store is under way
	retired []*epoch      // replaced epochs, for results that met them just then
	plain   *epoch        // this version's, while another mode has replaced it: its calls may still succeed
	asking  bool          // a probe was asked of the store
	unused  int           // grants that came too late for their call, in a row
	grant   string        // such a grant's token
	io      chan struct{} // one exchange with the store at a time
}

// told is what listeners were told last.
type told struct {
	phase   Phase
	version uint64
	own     Phase // of this host's own circuit
}

// storeViews are the states that a circuit has from its store. They are large,
// and apart so that a circuit without a store does not bear them.
type storeViews struct {
	shared State // as the store knows it
	seen   State // newest state that was watched during an exchange
}

// Name returns the canonical name.
func (c *Circuit) Name() string { return c.name }

// Policy returns the policy in force for this process; where a store holds a
// newer one, [Circuit.Status] shows that.
func (c *Circuit) Policy() Policy { return *c.policy.Load() }

// Allow asks whether a call may be made. The error is a *[Denial], or ctx's
// error. While the circuit is closed it is one atomic load.
//
// ctx bounds what little waiting there is: one call per cooldown may wait a few
// milliseconds while a store hands out the probe.
func (c *Circuit) Allow(ctx context.Context) (Permit, error) {
	e := c.cur.Load()
	switch e.mode {
	case modePlain, modeWindow:
		return Permit{epoch: e}, nil
	case modeTimed:
		return Permit{epoch: e, start: c.box.mono()}, nil
	case modeRefuse:
		if !e.over.Load() {
			e.refused.add()
			return Permit{}, e.denial
		}
	}
	return c.allow(ctx, c.box.now(), true)
}

// AllowAt is Allow at a time of the caller's choosing: for tests, replays and
// simulations. Nothing becomes overdue by itself in such time. Report such a
// permit with [Permit.DoneAt], and do not mix the two kinds of time on one
// circuit. Time may stand still; where it goes back, the decision is that of
// the earlier time.
func (c *Circuit) AllowAt(t time.Time) (Permit, error) {
	return c.allow(context.Background(), t, false)
}

func (c *Circuit) allow(ctx context.Context, t time.Time, live bool) (Permit, error) {
	c = c.lock()
	p, ask, err := c.admit(t, live)
	c.mu.Unlock()
	c.box.deliver()
	if ask == nil {
		return p, err
	}
	return c.box.sync.probe(ctx, c, *ask)
}

// lock locks the circuit, or the one that took its place after an eviction.
func (c *Circuit) lock() *Circuit {
	for {
		c.mu.Lock()
		if !c.gone {
			return c
		}
		c.mu.Unlock()
		c = c.box.replace(c)
	}
}

// admit decides under the lock. ask is the request for a probe that the store
// must grant.
func (c *Circuit) admit(t time.Time, live bool) (p Permit, ask *Event, err error) {
	c.collect(t)
	s := c.deciding()
	d := s.Decide(t)
	if d.Go {
		c.refresh(t, live)
		return c.permit(t, "", live), nil, nil
	}
	if d.Probe {
		request := c.request(t)
		if c.box.joined() {
			if !c.detailed().asking {
				c.d.asking = true
				return Permit{}, &request, nil
			}
		} else if c.fold(t, live, request); c.d.state.HasLease(request.Lease) {
			return c.permit(t, request.Lease, live), nil, nil
		}
		s = c.deciding()
	} else if p, ok := c.granted(t, live); ok {
		return p, nil, nil
	}
	p, err = c.refuse(s, t, live)
	return p, nil, err
}

// refuse counts the refusal and words it; in observe mode the call goes all
// the same.
func (c *Circuit) refuse(s *State, t time.Time, live bool) (Permit, error) {
	denial := c.denial(s, t)
	if !live {
		denial.now = func() time.Time { return t }
	}
	c.fold(t, live, Event{Kind: KindDenied, At: t, Reason: denial.reason, Observed: c.observes()})
	if c.observes() {
		return c.permit(t, "", live), nil
	}
	return Permit{}, denial
}

// request asks for a probe's slot.
func (c *Circuit) request(t time.Time) Event {
	e := Event{Kind: KindLease, Action: ActionGranted, At: t, Lease: newToken(), Worker: c.box.cfg.Worker}
	if lease := c.policy.Load().Probe.Lease; lease > 0 {
		e.Until = t.Add(lease)
	}
	return e
}

// newToken is unique per grant.
func newToken() string { return strconv.FormatUint(rand.Uint64()|1<<63, 36) }

// granted takes up a probe that the store granted too late for the call that
// asked for it.
func (c *Circuit) granted(t time.Time, live bool) (Permit, bool) {
	if c.d == nil || c.d.grant == "" {
		return Permit{}, false
	}
	token, s := c.d.grant, c.deciding()
	i := s.lease(token)
	c.d.grant = ""
	if i < 0 || !s.Leases[i].live(t) {
		return Permit{}, false
	}
	c.d.unused = 0
	return c.permit(t, token, live), true
}

// permit makes a permit of the present version.
func (c *Circuit) permit(t time.Time, lease string, live bool) Permit {
	e := c.cur.Load()
	if e.version != c.known().Version {
		c.refresh(t, live)
		e = c.cur.Load()
	}
	p := Permit{epoch: e, start: int64(t.Sub(c.box.base))}
	if p.start == 0 {
		p.start = 1 // 0 is for what was not measured
	}
	overdue := c.policy.Load().Overdue > 0 && len(c.policy.Load().Trip) > 0
	if lease == "" && !overdue {
		return p
	}
	p.flight = &flight{lease: lease}
	if overdue && live {
		flight := p.flight
		flight.overdue = time.AfterFunc(c.policy.Load().Overdue, func() { c.overdue(p, flight) })
	}
	return p
}

// overdue counts a call as failed that has run for too long.
func (c *Circuit) overdue(p Permit, f *flight) {
	f.mu.Lock()
	if f.done {
		f.mu.Unlock()
		return
	}
	f.counted = true
	f.mu.Unlock()
	t := c.box.now()
	e := p.event(t, Result{Outcome: Failure, Class: ClassTimeout})
	e.Overdue = true
	e.Error = "still running after " + shortDuration(c.policy.Load().Overdue)
	c = c.lock()
	c.fold(t, true, e)
	c.mu.Unlock()
	c.box.deliver()
}

// report takes a result in.
func (c *Circuit) report(p Permit, t time.Time, r Result, live bool) {
	if live && !r.NotBefore.IsZero() { // by the box's clock: who waits so long must not come early by the difference
		r.NotBefore = t.Add(time.Until(r.NotBefore))
	}
	e := p.event(t, r)
	if p.flight != nil {
		counted, again := p.flight.settle()
		if again {
			return
		}
		if counted {
			e.Late, e.Lease = true, ""
		}
	}
	c = c.lock()
	e.Error = c.errorText(r.Err)
	c.fold(t, live, e)
	c.mu.Unlock()
	c.box.deliver()
}

// errorText is ErrorText, which costs as much as all the rest of a failure, for
// errors that mostly repeat. The caller holds the lock.
func (c *Circuit) errorText(err error) string {
	if err == nil {
		return ""
	}
	d, raw := c.detailed(), err.Error()
	if raw == "" || raw != d.rawError {
		d.errorText = ErrorText(err)
		d.rawError = ""
		if len(raw) <= 4*maxErrorText {
			d.rawError = raw
		}
	}
	return d.errorText
}

// known is the state as this process knows it. The caller holds the lock and
// must not change it.
func (c *Circuit) known() *State {
	if c.d != nil {
		return &c.d.state
	}
	return &State{Policy: *c.policy.Load()}
}

// deciding is the state that decides for this process. The caller holds the
// lock and must not change it.
func (c *Circuit) deciding() *State { return c.known().For(c.box.cfg.Worker) }

// detailed returns the detail, making it if need be.
func (c *Circuit) detailed() *detail {
	if c.d == nil {
		c.d = &detail{state: State{Policy: *c.policy.Load(), Seed: rand.Uint64() >> 11}}
		if c.box.sync != nil {
			c.d.storeViews = &storeViews{}
			c.d.io = make(chan struct{}, 1)
			c.d.id.From = newToken()
		}
	}
	return c.d
}

// fold takes in an event of this process. The caller holds the lock and calls
// box.deliver after giving it back.
func (c *Circuit) fold(t time.Time, live bool, e Event) {
	c.collect(t)
	c.take(e)
	c.refresh(t, live)
}

// take folds one event and keeps it for the store and the listeners.
func (c *Circuit) take(e Event) {
	d := c.detailed()
	e.Circuit = c.name
	if !c.box.joined() { // else the store judges, which may know more
		e.MarkLate(&d.state)
	}
	if e.Worker == "" {
		e.Worker = c.box.cfg.Worker
	}
	d.state.apply(&e)
	c.box.out.evidence(e)
	if c.box.sync == nil {
		c.tell(&d.state)
		return
	}
	d.queue(e)
	if !c.box.joined() {
		c.tell(&d.state)
	}
	if urgent(&e) {
		c.box.sync.kick(c)
	}
}

// urgent reports whether others should hear of e at once. What is left only
// adds up, and goes with the next report.
func urgent(e *Event) bool {
	switch e.Kind {
	case KindDenied:
		return false
	case KindEvidence:
		return e.Outcome != Success || e.Lease != ""
	}
	return true
}

// tell queues the transition to s for the listeners, if they have not been
// told of that version.
func (c *Circuit) tell(s *State) {
	last := &c.d.told
	if s.Version <= last.version {
		c.tellOwn(s)
		return
	}
	if tr, changed := Changed(c.name, &State{Phase: last.phase, Version: last.version}, s); changed {
		c.box.out.transition(tr)
	}
	*last = told{phase: s.Phase, version: s.Version}
}

// tellOwn queues the change of this host's own circuit, if it was not told.
func (c *Circuit) tellOwn(s *State) {
	if len(s.Hosts) == 0 && c.d.told.own == Closed || s.Version < c.d.told.version {
		return
	}
	host := HostOf(c.box.cfg.Worker)
	before := State{Version: s.Version, Hosts: []Host{{Name: host, Own: &OwnCircuit{Phase: c.d.told.own}}}}
	after := State{Version: s.Version, Hosts: []Host{{Name: host, Seen: c.box.now()}}}
	known := s.host(host)
	if known != nil {
		after.Hosts[0] = *known
	}
	if tr, changed := ownChanged(c.name, &before, &after); changed {
		if known == nil {
			tr.Cause = "the host is not told apart any more"
		}
		c.box.out.transition(tr)
		c.d.told.own = tr.To
	}
}

// collect folds what the fast path counted since it was last called. The
// caller holds the lock.
func (c *Circuit) collect(t time.Time) {
	if c.d != nil {
		for _, e := range c.d.retired {
			c.collectEpoch(e, t)
		}
		c.d.retired = nil
		if plain := c.d.plain; plain != nil {
			c.collectEpoch(plain, t)
		}
	}
	c.collectEpoch(c.cur.Load(), t)
	if c.d != nil {
		c.d.since = t
	}
}

func (c *Circuit) collectEpoch(e *epoch, t time.Time) {
	if n, _ := e.refused.drain(); n > 0 {
		c.take(Event{Kind: KindDenied, At: t, N: int(n), Reason: e.denial.reason})
	}
	n, elapsed := e.ok.drain()
	if n == 0 {
		return
	}
	run := c.run(e, t, n, elapsed)
	c.take(run)
}

// run is the record of n successes that the fast path counted.
func (c *Circuit) run(e *epoch, t time.Time, n, elapsed int64) Event {
	if end := e.bucketEnd.Load(); end > 0 {
		if last := c.box.base.Add(time.Duration(end) - 1); t.After(last) {
			t = last // they ended in the bucket that was open then
		}
	}
	run := Event{At: t, Elapsed: time.Duration(elapsed / n), Admitted: true, Version: e.version, Worker: c.box.cfg.Worker}
	if n > 1 {
		run.N, run.Since = int(n), t
		if c.d != nil && !c.d.since.IsZero() && c.d.since.Before(t) {
			run.Since = c.d.since
		}
	}
	return run
}

// retire keeps a replaced epoch where somebody wants every result recorded:
// a success may still be on its way to its counter.
func (c *Circuit) retire(e *epoch, t time.Time) {
	if c.box.records() {
		d := c.detailed()
		d.retired = append(d.retired, e)
	}
}

// Observes reports whether the circuit decides and records, but refuses nothing.
func (c *Circuit) Observes() bool { return c.observes() }

// observes reports whether the circuit refuses nothing.
func (c *Circuit) observes() bool { return c.policy.Load().Observe || c.box.cfg.Observe }

// denial words the refusal by s at t.
func (c *Circuit) denial(s *State, t time.Time) *Denial {
	d := s.Decide(t)
	denial := &Denial{circuit: c.name, reason: d.Reason, failures: s.CountAt(t), last: s.LastError, now: c.box.now,
		texts: c.box.runs.thrash.Texts}
	if Kind(c.name) == runKind { // a run's record refuses for one reason only
		denial.reason, denial.last = ReasonStuck, s.Cause
	} else if d.Probe { // a slot is free, but another call is just taking it
		denial.reason = ReasonProbing
	}
	if d.RetryAfter > 0 {
		denial.until = t.Add(d.RetryAfter)
	}
	return denial
}

// Status returns what is known of the circuit now. It has no effects.
func (c *Circuit) Status() Status { return c.StatusAt(c.box.now()) }

// StatusAt is Status at t.
func (c *Circuit) StatusAt(t time.Time) Status {
	c = c.lock()
	defer c.mu.Unlock()
	s := c.known().clone()
	if c.d != nil && c.d.plain != nil {
		c.peek(c.d.plain, &s, t)
	}
	c.peek(c.cur.Load(), &s, t)
	status := s.For(c.box.cfg.Worker).StatusAt(c.name, t)
	if y := c.box.sync; y != nil {
		status.Local, status.LocalSince = y.localSince()
	}
	return status
}

// peek folds into s what the fast path counted in e, and leaves it there.
func (c *Circuit) peek(e *epoch, s *State, t time.Time) {
	if n, elapsed := e.ok.peek(); n > 0 {
		run := c.run(e, t, n, elapsed)
		s.apply(&run)
	}
	if n, _ := e.refused.peek(); n > 0 {
		s.apply(&Event{Kind: KindDenied, At: t, N: int(n), Reason: e.denial.reason, Worker: c.box.cfg.Worker})
	}
}

// State returns a copy of the state that decides for this process; see
// [State.For].
func (c *Circuit) State() State {
	c = c.lock()
	defer c.mu.Unlock()
	c.collect(c.box.now())
	return c.deciding().clone()
}

// allowAs is Allow or AllowAt.
func (c *Circuit) allowAs(ctx context.Context, t time.Time, live bool) (Permit, error) {
	if live {
		return c.Allow(ctx)
	}
	return c.AllowAt(t)
}

// version is the circuit's version as calls see it.
func (c *Circuit) version() uint64 { return c.cur.Load().version }

// closedSince reports whether the circuit has closed since that version, or its
// host's own one since that time.
func (c *Circuit) closedSince(version uint64, t time.Time) bool {
	if c.version() == version && c.policy.Load().Quorum <= 1 {
		return false
	}
	c = c.lock()
	defer c.mu.Unlock()
	s := c.known()
	if s.Version != version {
		return s.Phase == Closed
	}
	own := s.host(HostOf(c.box.cfg.Worker))
	return own != nil && own.Since.After(t)
}
