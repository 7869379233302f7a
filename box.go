package fusebox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Config says how a Box decides. The zero Config is usable: built-in policies,
// no store.
type Config struct {
	// Policy gives a circuit's policy by its canonical name; a wholly zero
	// Policy stands for its kind's. nil = every circuit has its kind's. It is
	// called once per circuit and must be safe for concurrent use.
	Policy func(circuit string) Policy

	// Classify says what an error means, for Do and Call; nil = Classify.
	// It is not called for a nil error.
	Classify func(context.Context, error) Result

	// Guard says what Call does around a circuit, besides its policy, by the
	// circuit's canonical name; nil = the zero Guard. It is called once per
	// circuit and must be safe for concurrent use.
	Guard func(circuit string) Guard

	Thrash Thrash
	Retry  Retry

	// Store shares the circuits with other processes; nil = none does. The
	// caller closes it, after the Box.
	Store Store

	// Report is how often successes are reported to the Store; failures are
	// reported at once. 0 = 10 s.
	Report time.Duration

	MaxCircuits int          // 0 = 100,000
	Worker      string       // who reports; "" = not said
	Version     string       // of the program, for those who look at the fleet
	Observe     bool         // decide and record, but refuse nothing
	Logger      *slog.Logger // nil = quiet
}

const defaultMaxCircuits = 100_000

// Box holds the circuits of a process by name. Its methods are safe for
// concurrent use.
type Box struct {
	cfg  Config
	id   string    // unlike any other box's
	base time.Time // wall clock at New; times are base plus a monotonic difference
	mark time.Time // the same instant, with the monotonic reading
	sync *syncer   // nil without a store
	out  outbox
	runs *runs

	policing sync.RWMutex // locked before mu and before circuits; guards policy
	policy   func(circuit string) Policy

	mu       sync.RWMutex
	circuits map[string]*Circuit
	ring     []*Circuit // all circuits, in the order in which they may be evicted
	hand     int
	policies []*Policy // each once
	closed   bool
}

// New returns a Box, or what is wrong with cfg.
func New(cfg Config) (*Box, error) {
	if cfg.MaxCircuits < 0 || cfg.Report < 0 {
		return nil, errors.New("fusebox: Config: MaxCircuits and Report must not be negative")
	}
	if cfg.MaxCircuits == 0 {
		cfg.MaxCircuits = defaultMaxCircuits
	}
	if cfg.Report == 0 {
		cfg.Report = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Classify == nil {
		cfg.Classify = Classify
	}
	b := &Box{cfg: cfg, id: newToken(), policy: cfg.Policy, mark: time.Now(), circuits: map[string]*Circuit{}}
	b.base = b.mark.Round(0).UTC()
	b.out.log = cfg.Logger
	var err error
	if b.runs, err = newRuns(b, cfg.Thrash, cfg.Retry); err != nil {
		return nil, err
	}
	if cfg.Store != nil {
		b.sync = newSyncer(b)
		b.sync.begin()
	}
	return b, nil
}

// now is the time on the box's clock: it began as the wall clock and runs
// monotonic, whatever is done to the wall clock.
func (b *Box) now() time.Time { return b.base.Add(time.Since(b.mark)) }

// mono is the time on the box's clock in nanoseconds since New.
func (b *Box) mono() int64 { return max(int64(time.Since(b.mark)), 1) }

// records reports whether somebody wants every result: with its time.
func (b *Box) records() bool { return b.sync != nil || b.out.wanted.Load() }

// joined reports whether the store is there and answers.
func (b *Box) joined() bool { return b.sync != nil && !b.sync.local.Load() }

func (b *Box) classify(ctx context.Context, err error) Result { return b.cfg.Classify(ctx, err) }

// Circuit returns the circuit of that name, making it if need be. The name is
// made canonical; the error matches [ErrName], [ErrPolicy], [ErrFull] or
// [ErrClosed]. With a store the first look at a name waits for it, half a
// second at most.
//
// Keep the *Circuit where the name does not change: it stays valid also when
// the box forgets the circuit, because too many others came.
func (b *Box) Circuit(name string) (*Circuit, error) {
	b.mu.RLock()
	c := b.circuits[name]
	b.mu.RUnlock()
	if c != nil {
		c.used.Store(true)
		return c, nil
	}
	name, err := CanonicalName(name)
	if err != nil {
		return nil, err
	}
	c, made, err := b.lookUp(name)
	if err == nil && made && b.sync != nil {
		b.sync.first(c)
	}
	return c, err
}

func (b *Box) lookUp(name string) (c *Circuit, made bool, err error) {
	b.mu.RLock()
	c = b.circuits[name]
	b.mu.RUnlock()
	if c != nil {
		c.used.Store(true)
		return c, false, nil
	}
	b.policing.RLock() // its policy must not change between here and its place among the others
	defer b.policing.RUnlock()
	p, err := b.policyOf(name, b.policy)
	if err != nil {
		return nil, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, false, ErrClosed
	}
	if c := b.circuits[name]; c != nil {
		return c, false, nil
	}
	c = &Circuit{box: b, name: name}
	c.policy.Store(b.intern(p))
	if err := b.place(c); err != nil {
		return nil, false, err
	}
	c.cur.Store(&epoch{circuit: c})
	c.mu.Lock()
	c.refresh(b.now(), true)
	c.mu.Unlock()
	b.circuits[name] = c
	return c, true, nil
}

// policyOf returns what policy says for a circuit, or what is wrong with that.
func (b *Box) policyOf(name string, policy func(circuit string) Policy) (Policy, error) {
	p := Policy{}
	switch {
	case Kind(name) == runKind:
		p = b.runs.thrash.RunPolicy()
	case policy != nil:
		p = policy(name)
	}
	p = p.orDefault(name)
	if p.Quorum == 0 {
		p.Quorum = b.quorum()
	}
	if err := p.Validate(); err != nil {
		return Policy{}, fmt.Errorf("circuit %s: %w", name, err)
	}
	return p, nil
}

// quorum is the quorum of policies that say nothing of it.
func (b *Box) quorum() int {
	if store, ok := b.cfg.Store.(interface{ Quorum() int }); ok {
		return store.Quorum()
	}
	return 0
}

// SetPolicies puts policy in place of [Config].Policy. All circuits go by their
// new policies from now on, and keep what is known of them: phase, deadline and
// counts. With a store the policies reach it with each circuit's next evidence.
// Where one of them is invalid nothing changes; the error matches [ErrPolicy].
//
// policy is called for every circuit, and for those to come, while the Box is
// held up: it must not call the Box or its circuits.
func (b *Box) SetPolicies(policy func(circuit string) Policy) error {
	b.policing.Lock()
	defer b.policing.Unlock()
	circuits := b.all()
	policies := make([]Policy, len(circuits))
	for i, c := range circuits {
		p, err := b.policyOf(c.name, policy)
		if err != nil {
			return err
		}
		policies[i] = p
	}
	b.policy = policy
	b.mu.Lock()
	b.policies = nil
	for i, c := range circuits {
		c.policy.Store(b.intern(policies[i]))
	}
	b.mu.Unlock()
	for _, c := range circuits {
		c.obey(b.now())
	}
	b.deliver()
	return nil
}

// obey goes on by the policy that the circuit was given.
func (c *Circuit) obey(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.collect(t)
	if c.d != nil {
		c.d.state.adopt(*c.policy.Load(), c.name)
		if c.d.storeViews != nil {
			c.d.shared.adopt(*c.policy.Load(), c.name)
		}
	}
	now := c.cur.Load()
	c.retire(now, t)
	c.cur.Store(&epoch{circuit: c, version: now.version}) // also one of the same mode may differ in its limits
	c.refresh(t, true)
}

// intern keeps one copy of equal policies.
func (b *Box) intern(p Policy) *Policy {
	for _, known := range b.policies {
		if known.Equal(p) && known.Loaded.Equal(p.Loaded) {
			return known
		}
	}
	b.policies = append(b.policies, &p)
	return &p
}

// sweep is how many circuits one new name may look at for one to evict.
const sweep = 256

// place finds room for c, evicting a closed circuit without live marks if the
// box is full: of those not looked up lately the one that was there longest.
func (b *Box) place(c *Circuit) error {
	if len(b.ring) < b.cfg.MaxCircuits {
		b.ring = append(b.ring, c)
		return nil
	}
	for range min(2*len(b.ring), sweep) {
		i := b.hand
		b.hand = (b.hand + 1) % len(b.ring)
		old := b.ring[i]
		if old.used.Swap(false) || !old.evict(b.now()) {
			continue
		}
		delete(b.circuits, old.name)
		b.ring[i] = c
		return nil
	}
	return fmt.Errorf("%w: %d are known", ErrFull, len(b.ring))
}

// evict marks the circuit as gone, if nothing is lost with it. Whoever still
// has it is led to its successor.
func (c *Circuit) evict(t time.Time) bool {
	if !c.mu.TryLock() {
		return false // in use this very moment
	}
	defer c.mu.Unlock()
	if c.d != nil {
		s := &c.d.state
		n, _ := c.cur.Load().ok.peek()
		unreported := c.box.records() && n > 0 || len(c.d.pending) > 0 || c.d.asking
		if unreported || c.deciding().Phase != Closed || s.Hold.active(t) || t.Before(s.Throttled) || s.CountAt(t) > 0 {
			return false
		}
	}
	c.gone = true
	c.cur.Store(&epoch{circuit: c}) // modeLocked: nobody passes by the fast path
	return true
}

// replace returns the circuit that took the place of an evicted one. It cannot
// fail: where there is no room it is one that the box does not keep.
func (b *Box) replace(gone *Circuit) *Circuit {
	if c, _, err := b.lookUp(gone.name); err == nil {
		return c
	}
	c := &Circuit{box: b, name: gone.name}
	c.policy.Store(gone.policy.Load())
	c.cur.Store(&epoch{circuit: c})
	return c
}

// all returns the circuits in name order.
func (b *Box) all() []*Circuit {
	b.mu.RLock()
	list := slices.Clone(b.ring)
	b.mu.RUnlock()
	slices.SortFunc(list, func(x, y *Circuit) int {
		if x.name < y.name {
			return -1
		}
		return 1
	})
	return list
}

// Circuits returns the status of every circuit of this process, in name order.
// It has no effects.
func (b *Box) Circuits() []Status {
	list := b.all()
	status := make([]Status, len(list))
	for i, c := range list {
		status[i] = c.Status()
	}
	return status
}

// renew lets every circuit choose its mode again.
func (b *Box) renew() {
	for _, c := range b.all() {
		c := c.lock()
		t := b.now()
		c.collect(t)
		c.refresh(t, true)
		c.mu.Unlock()
	}
	b.deliver()
}

// Flush folds what the fast paths counted, and waits until the store has
// everything and the listeners have heard of it, or ctx ends. A listener must
// not call it.
func (b *Box) Flush(ctx context.Context) error {
	for _, c := range b.all() {
		c := c.lock()
		c.collect(b.now())
		c.mu.Unlock()
	}
	b.deliver()
	if b.sync != nil {
		if err := b.sync.flush(ctx); err != nil {
			return err
		}
	}
	return b.settle(ctx)
}

// Close flushes and ends the box's use of the store. Circuits go on deciding by
// what they know. It is safe to call twice.
func (b *Box) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	err := b.Flush(ctx)
	if b.sync != nil {
		b.sync.end(ctx)
	}
	for _, c := range b.all() {
		c := c.lock()
		if c.d != nil && c.d.wake != nil && c.cur.Load().mode != modeRefuse {
			c.d.wake.Stop()
		}
		c.mu.Unlock()
	}
	return err
}
