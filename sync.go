package fusebox

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How long this process gives the store.
const (
	firstLook    = 500 * time.Millisecond // a circuit's first state
	exchangeTime = 2 * time.Second        // one report, in the background
	probeWait    = 5 * time.Millisecond   // the call that asks for a probe
	probeWaitMax = 250 * time.Millisecond // the same, where grants keep coming too late
	rejoinEvery  = 500 * time.Millisecond // between tries while the store is out of reach: less than its heartbeat
)

const (
	maxPending = 10_000                 // events that wait for the store, a circuit
	clockSlack = 500 * time.Millisecond // clocks that differ by less are taken as one
)

// syncer keeps a box in step with its store. No call waits for it: the state
// that decides is the last shared one folded with the events that the store has
// not acknowledged. While the store is out of reach, that goes on by itself.
type syncer struct {
	box    *Box
	store  Store
	local  atomic.Bool  // the store is out of reach
	offset atomic.Int64 // the store's clock minus the box's, nanoseconds
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	ended  sync.WaitGroup

	present bool // this process was announced; of announce, then of end

	mu    sync.Mutex
	since time.Time // of local, the last time
	until time.Time // zero while it is
	queue []*Circuit
	known map[*Circuit]bool // in queue
}

func newSyncer(b *Box) *syncer {
	y := &syncer{box: b, store: b.cfg.Store, wake: make(chan struct{}, 1), known: map[*Circuit]bool{}}
	y.ctx, y.cancel = context.WithCancel(context.Background())
	return y
}

func (y *syncer) begin() {
	y.ended.Go(y.report)
	y.ended.Go(y.watch)
	if p, ok := y.store.(Presence); ok {
		y.ended.Go(func() { y.announce(p) })
	}
}

func (y *syncer) end(ctx context.Context) {
	lost := y.local.Swap(true) // whoever calls on is not led to the store any more
	y.cancel()
	y.ended.Wait()
	if !lost {
		y.leave(ctx)
	}
}

// kick has the circuit's events reported now.
func (y *syncer) kick(c *Circuit) {
	y.mu.Lock()
	if !y.known[c] {
		y.known[c] = true
		y.queue = append(y.queue, c)
	}
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

func (y *syncer) next() *Circuit {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.queue) == 0 {
		return nil
	}
	c := y.queue[0]
	y.queue = y.queue[1:]
	delete(y.known, c)
	return c
}

// report is the loop that sends events to the store.
func (y *syncer) report() {
	tick := time.NewTicker(y.box.cfg.Report)
	defer tick.Stop()
	for {
		select {
		case <-y.ctx.Done():
			return
		case <-y.wake:
		case <-tick.C:
			y.kickUnreported()
		}
		y.drain()
		y.box.deliver()
	}
}

// drain reports until nothing is left; while the store fails it asks again now
// and then.
func (y *syncer) drain() {
	for c := y.next(); c != nil; c = y.next() {
		ctx, cancel := context.WithTimeout(y.ctx, exchangeTime)
		err := y.exchange(ctx, c)
		cancel()
		if err == nil {
			continue
		}
		if y.ctx.Err() != nil {
			return
		}
		y.lost(err)
		y.kick(c)
		select {
		case <-y.ctx.Done():
			return
		case <-time.After(rejoinEvery):
		}
	}
}

// kickUnreported queues every circuit that has something to report.
func (y *syncer) kickUnreported() {
	for _, c := range y.box.all() {
		if c.unreported() {
			y.kick(c)
		}
	}
}

func (c *Circuit) unreported() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.collect(c.box.now())
	return c.d != nil && len(c.d.pending) > 0
}

// lost notes that the store is out of reach: from now on this process decides
// for itself, beginning with what it knew last.
func (y *syncer) lost(err error) {
	if y.local.Swap(true) {
		return
	}
	y.mu.Lock()
	y.since, y.until = y.box.now(), time.Time{}
	y.mu.Unlock()
	y.box.cfg.Logger.Warn("the store is out of reach, circuits go on locally", "error", err)
	for _, c := range y.box.all() {
		c.mu.Lock()
		if c.d != nil {
			c.tell(&c.d.state)
		}
		c.mu.Unlock()
	}
	y.box.deliver()
}

// found notes that the store is back, and has every circuit compared with it.
func (y *syncer) found() {
	if !y.local.Swap(false) {
		return
	}
	y.mu.Lock()
	y.until = y.box.now()
	y.mu.Unlock()
	y.box.cfg.Logger.Info("the store is back")
	for _, c := range y.box.all() {
		y.kick(c)
	}
}

func (y *syncer) localSince() (local bool, since time.Time) {
	if !y.local.Load() {
		return false, time.Time{}
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return true, y.since
}

// first gets the circuit's first state.
func (y *syncer) first(c *Circuit) {
	if y.local.Load() {
		y.kick(c)
		return
	}
	ctx, cancel := context.WithTimeout(y.ctx, firstLook)
	defer cancel()
	if err := y.exchange(ctx, c); err != nil {
		y.lost(err)
		y.kick(c)
	}
	y.box.deliver()
}

// exchange sends what the store has not seen of the circuit, and extra, and
// takes over the state that comes back.
func (y *syncer) exchange(ctx context.Context, c *Circuit, extra ...Event) error {
	c.mu.Lock()
	d := c.detailed()
	c.mu.Unlock()
	select {
	case d.io <- struct{}{}:
		defer func() { <-d.io }()
	case <-ctx.Done():
		return ctx.Err()
	}

	c.mu.Lock()
	c.collect(y.box.now())
	for i := range extra {
		extra[i].ID = d.nextID()
	}
	batch := slices.Concat(d.pending, extra)
	d.sent, d.busy = len(d.pending), true
	ahead := y.local.Load()
	c.mu.Unlock()

	s, recorded, err := y.send(ctx, c, batch, ahead)
	c.mu.Lock()
	defer c.mu.Unlock()
	if recorded {
		d.pending = slices.Delete(d.pending, 0, d.sent)
		d.sent = 0
	}
	d.busy = false
	if err != nil {
		d.seen = State{}
		return err
	}
	if d.seen.newer(&s) { // somebody wrote after us, and knew of our events
		s = d.seen
	}
	d.seen = State{}
	c.adopt(s)
	return nil
}

// send has the store fold the batch; recorded says that it did, whatever the
// error. A store that has lost what was known is given it back.
func (y *syncer) send(ctx context.Context, c *Circuit, batch []Event, ahead bool) (s State, recorded bool, err error) {
	if ahead { // its clock may have been set meanwhile, or was never compared
		if s, err = y.store.Apply(ctx, c.name, *c.policy.Load()); err != nil {
			return State{}, false, err
		}
		y.compareClocks(&s)
	}
	offset := time.Duration(y.offset.Load())
	for i := range batch {
		batch[i].shift(offset)
	}
	if s, err = y.store.Apply(ctx, c.name, *c.policy.Load(), batch...); err != nil {
		return State{}, false, err
	}
	y.compareClocks(&s)
	if better, lost := c.better(s, ahead); lost {
		better.shift(time.Duration(y.offset.Load()))
		checkpoint := Event{Kind: KindCheckpoint, At: s.Now, State: &better, Worker: y.box.cfg.Worker, Cause: "the store had lost it"}
		if s, err = y.store.Apply(ctx, c.name, *c.policy.Load(), checkpoint); err != nil {
			return State{}, true, err
		}
	}
	y.found()
	return s, true, nil
}

// better returns the state that the store has lost, if it has: it counts fewer
// events, or is of a lower version, than what was known before with what was
// just sent.
func (c *Circuit) better(s State, ahead bool) (State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.d
	best := d.shared.clone()
	for i := range d.sent {
		best.apply(&d.pending[i])
	}
	lost := s.Version < d.shared.Version || s.Revision < best.Revision
	if ahead && s.Policy.Quorum > 1 { // what one host came to by itself is not for all
		if ahead = false; best.Version > d.shared.Version {
			best = d.shared.clone()
		}
	}
	if ahead && d.state.Version > best.Version {
		best = d.state.clone()
	}
	return best, lost && best.Version == s.Version || (lost || ahead) && best.Version > s.Version
}

// adopt takes over the store's state. The caller holds the lock.
func (c *Circuit) adopt(s State) {
	d, y := c.d, c.box.sync
	s.shift(-time.Duration(y.offset.Load()))
	d.shared = s
	d.state = s.clone()
	for i := range d.pending {
		d.state.apply(&d.pending[i])
	}
	if d.state.Version < d.told.version {
		c.takeBack()
	}
	if !d.met { // what happened before this process came is no news
		d.met = true
		d.told = told{phase: d.shared.Phase, version: max(d.shared.Version, d.told.version), own: d.shared.ownPhase(HostOf(y.box.cfg.Worker))}
	}
	c.tell(&d.shared)
	c.refresh(c.box.now(), true)
}

// takeBack tells the listeners that what this process came to while it was
// without the store does not hold.
func (c *Circuit) takeBack() {
	s, last := &c.d.state, c.d.told
	if s.Phase != last.phase {
		c.box.out.transition(Transition{At: c.box.now(), Circuit: c.name, From: last.phase, To: s.Phase,
			Version: s.Version, Until: s.Until, Cause: "the store is back"})
	}
	c.d.told = told{phase: s.Phase, version: s.Version}
}

// watch takes over what other processes changed.
func (y *syncer) watch() {
	for y.ctx.Err() == nil {
		err := y.store.Watch(y.ctx, func(name string, s State) {
			y.box.mu.RLock()
			c := y.box.circuits[name]
			y.box.mu.RUnlock()
			if c == nil {
				return
			}
			c.mu.Lock()
			y.compareClocks(&s)
			switch d := c.detailed(); {
			case c.gone:
			case y.local.Load(), s.Version < d.shared.Version:
				y.kick(c) // the store is back, or has lost what was known
			case !s.newer(&d.shared):
			case d.busy: // it may hold events of ours that are not acknowledged yet
				d.seen = s
			default:
				c.adopt(s)
			}
			c.mu.Unlock()
			y.box.deliver()
		})
		if err != nil && y.ctx.Err() == nil {
			y.box.cfg.Logger.Warn("watching the store failed", "error", err)
		}
		select {
		case <-y.ctx.Done():
		case <-time.After(rejoinEvery):
		}
	}
}

// newer reports whether s was folded after other. A store that lost its data
// counts revisions anew, but not versions: those are given back to it.
func (s *State) newer(other *State) bool {
	if s.Version != other.Version {
		return s.Version > other.Version
	}
	return s.Revision > other.Revision
}

// compareClocks learns how far the store's clock is from the box's. The store's
// rules: deadlines become times on the box's monotonic clock.
func (y *syncer) compareClocks(s *State) {
	if s.Now.IsZero() {
		return
	}
	measured := s.Now.Sub(y.box.now())
	if off := measured - time.Duration(y.offset.Load()); off > clockSlack || off < -clockSlack {
		y.offset.Store(int64(measured))
	}
}

// flush reports everything, and returns when the store has it.
func (y *syncer) flush(ctx context.Context) error {
	for _, c := range y.box.all() {
		if !c.unreported() {
			continue
		}
		if err := y.exchange(ctx, c); err != nil {
			y.lost(err)
			return err
		}
	}
	y.box.deliver()
	return nil
}

// probe asks the store for a probe's slot. The call waits a few milliseconds;
// a grant that comes later is kept for the next call. Only where that keeps
// happening, because calls are too rare, is the wait longer.
func (y *syncer) probe(ctx context.Context, c *Circuit, request Event) (Permit, error) {
	c.mu.Lock()
	wait := min(probeWait<<min(c.d.unused, 10), probeWaitMax)
	c.mu.Unlock()
	answer := make(chan error, 1)
	waiting := true // guarded by c.mu
	y.ended.Go(func() {
		ask, cancel := context.WithTimeout(y.ctx, exchangeTime)
		defer cancel()
		err := y.exchange(ask, c, request)
		if err != nil {
			y.lost(err)
		}
		c.mu.Lock()
		c.d.asking = false
		if !waiting && err == nil && c.d.state.HasLease(request.Lease) {
			c.d.grant = request.Lease
			c.d.unused++
		}
		c.mu.Unlock()
		answer <- err
		y.box.deliver()
	})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var err error
	select {
	case err = <-answer:
	case <-timer.C:
	case <-ctx.Done():
	}
	t := y.box.now()
	now := c.lock() // the one that took its place, if it was evicted
	defer y.box.deliver()
	defer now.mu.Unlock()
	waiting = false
	if err != nil { // the store is out of reach: this process probes for itself
		now.fold(t, true, request)
	}
	if now.d != nil && now.d.state.HasLease(request.Lease) {
		now.d.grant, now.d.unused = "", 0
		return now.permit(t, request.Lease, true), nil
	}
	s := now.deciding()
	if s.Decide(t).Go { // another's probe has closed it meanwhile
		return now.permit(t, "", true), nil
	}
	p, refusal := now.refuse(s, t, true)
	return p, refusal
}

// queue keeps e for the store. What only adds up is added up, unless it was
// sent already: what may have arrived stays as it is.
func (d *detail) queue(e Event) {
	if n := len(d.pending); n > d.sent && d.pending[n-1].absorb(&e) {
		return
	}
	e.ID = d.nextID()
	d.pending = append(d.pending, e)
	if over := len(d.pending) - maxPending; over > 0 && !d.busy {
		d.pending = slices.Delete(d.pending, 0, over)
		d.sent = max(d.sent-over, 0)
	}
}

func (d *detail) nextID() EventID {
	d.id.N++
	return d.id
}

// absorb adds next to e where one record can tell of both, and reports whether
// it did.
func (e *Event) absorb(next *Event) bool {
	switch {
	case e.Kind == KindDenied && next.Kind == KindDenied && e.Reason == next.Reason && e.Observed == next.Observed && e.Run == next.Run && e.Cause == next.Cause:
		if e.Since.IsZero() {
			e.Since = e.At
		}
	case e.Kind == KindEvidence && next.Kind == KindEvidence && e.Outcome == Success && next.Outcome == Success &&
		e.Admitted && next.Admitted && e.Version == next.Version && e.Late == next.Late &&
		e.Lease == "" && next.Lease == "" && e.Attempts <= 1 && next.Attempts <= 1 && e.Call == "" && next.Call == "":
		if e.Since.IsZero() {
			e.Since = e.At
		}
		n, m := time.Duration(e.count()), time.Duration(next.count())
		e.Elapsed = (e.Elapsed*n + next.Elapsed*m) / (n + m)
	default:
		return false
	}
	e.N = e.count() + next.count()
	e.At = next.At
	return true
}

// shift moves the event's times to another clock.
func (e *Event) shift(by time.Duration) {
	for _, t := range []*time.Time{&e.At, &e.Since, &e.Until, &e.Seen} {
		shiftTime(t, by)
	}
}

// shift moves the state's times to another clock.
func (s *State) shift(by time.Duration) {
	if by == 0 {
		return
	}
	for _, t := range []*time.Time{&s.Since, &s.Until, &s.Throttled, &s.Checked, &s.Latest, &s.LastFailure} {
		shiftTime(t, by)
	}
	*s = s.clone()
	for i := range s.Leases {
		shiftTime(&s.Leases[i].At, by)
		shiftTime(&s.Leases[i].Until, by)
	}
	s.times = nil
	for i := range s.Marks {
		shiftTime(&s.Marks[i].At, by)
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		for _, t := range []*time.Time{&h.Seen, &h.Failed, &h.Slow, &h.Since} {
			shiftTime(t, by)
		}
		if h.Own != nil {
			own := h.state(s)
			own.shift(by)
			h.keep(&own)
		}
	}
	if s.Hold != nil {
		shiftTime(&s.Hold.At, by)
		shiftTime(&s.Hold.Until, by)
	}
	window := 0
	for i := range s.Policy.Trip {
		if rule := &s.Policy.Trip[i]; rule.isShare() && window < len(s.Windows) {
			s.Windows[window].First += int64(by) / max(int64(rule.within)/windowBuckets, 1)
			window++
		}
	}
}

func shiftTime(t *time.Time, by time.Duration) {
	if !t.IsZero() {
		*t = t.Add(by)
	}
}
