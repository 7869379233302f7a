package fusebox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"
)

// Presence is what a [Store] may be besides: a place where its workers leave a
// sign of life, for people who look at the fleet. Nothing is decided by it. A
// Store that has it passes storetest with it.
type Presence interface {
	// Announce leaves w where Workers finds it, in place of what bears the same
	// ID, until ttl has passed. It sets Seen to the store's time. A ttl of 0
	// takes w away. It is refused where [MaxWorkers] others are there.
	Announce(ctx context.Context, w Worker, ttl time.Duration) error

	// Workers lists who is there, by name and then by age. What cannot be read
	// is left out.
	Workers(ctx context.Context) ([]Worker, error)
}

// MaxWorkers is how many workers a store lists.
const MaxWorkers = 1000

// How often a worker announces itself, ±20 %, and what follows when it does not.
const (
	announceFirst = time.Second // who lives shorter shows in the evidence alone
	announceEvery = 10 * time.Second
	silentAfter   = 25 * time.Second
	presenceTime  = time.Minute
)

// Worker is a process that uses a store, as it announces itself.
type Worker struct {
	ID      string    `json:"id,omitempty"`     // unlike any other's: two may have one name
	Name    string    `json:"worker,omitempty"` // as its evidence names it
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"` // when it began
	Seen    time.Time `json:"seen,omitzero"`  // when it announced itself, by the store's clock

	// When it last was without the store. LocalSince without LocalUntil: it
	// still is, and goes on by itself.
	LocalSince time.Time `json:"local_since,omitzero"`
	LocalUntil time.Time `json:"local_until,omitzero"`

	// By what it would decide, were it alone: of each policy that its own
	// configuration gives to circuits it uses, at most 20.
	Policies []WorkerPolicy `json:"policies,omitempty"`
}

// WorkerPolicy is a policy of a worker's own configuration.
type WorkerPolicy struct {
	Fingerprint string   `json:"fingerprint"` // see [Policy.Fingerprint]
	Policy      Policy   `json:"policy"`
	Circuits    []string `json:"circuits"` // that have it, in order; at most the first 50
	Count       int      `json:"count"`    // how many have it
}

// Bounds of what a worker tells of itself.
const (
	maxWorkerPolicies = 20
	maxWorkerCircuits = 50
)

// SilentAt reports whether the worker should have announced itself since: it
// has ended, or lost the store. t is a time of the store's clock.
func (w *Worker) SilentAt(t time.Time) bool { return t.Sub(w.Seen) > silentAfter }

// PolicyOf returns the policy that the worker's configuration gives to a
// circuit. ok is false if it does not use that circuit, or does not name it
// among so many.
func (w *Worker) PolicyOf(circuit string) (p Policy, ok bool) {
	for i := range w.Policies {
		if slices.Contains(w.Policies[i].Circuits, circuit) {
			return w.Policies[i].Policy, true
		}
	}
	return Policy{}, false
}

// Compare orders workers by name, then by age.
func (w Worker) Compare(other Worker) int {
	switch {
	case w.Name < other.Name:
		return -1
	case w.Name > other.Name:
		return 1
	}
	return w.Since.Compare(other.Since)
}

// Fingerprint is a short text that policies have in common which decide alike,
// and others do not. Loaded does not matter.
func (p Policy) Fingerprint() string {
	p.Loaded = time.Time{}
	if p.Quorum == 1 {
		p.Quorum = 0 // the same
	}
	text, err := json.Marshal(p)
	if err != nil {
		return "" // of a share that is not a number: no valid policy has it
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// Worker is what this process tells of itself to others that use its store. It
// has no effects.
func (b *Box) Worker() Worker {
	w := Worker{ID: b.id, Name: b.cfg.Worker, Version: b.cfg.Version, Since: b.base, Seen: b.now()}
	if b.sync != nil {
		w.LocalSince, w.LocalUntil = b.sync.lastLocal()
	}
	users := map[*Policy]int{} // where in w.Policies
	for _, c := range b.all() {
		if Kind(c.name) == runKind {
			continue
		}
		p := c.policy.Load()
		i, known := users[p]
		if !known {
			if len(w.Policies) == maxWorkerPolicies {
				continue
			}
			i = len(w.Policies)
			users[p] = i
			w.Policies = append(w.Policies, WorkerPolicy{Fingerprint: p.Fingerprint(), Policy: *p})
		}
		own := &w.Policies[i]
		if own.Count++; own.Count <= maxWorkerCircuits {
			own.Circuits = append(own.Circuits, c.name)
		}
	}
	return w
}

// announce tells the others of this process, now and then, and takes its leave
// when the box is closed.
func (y *syncer) announce(p Presence) {
	wait := announceFirst
	for {
		select {
		case <-y.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = announceEvery*4/5 + rand.N(announceEvery*2/5)
		ctx, cancel := context.WithTimeout(y.ctx, exchangeTime)
		err := p.Announce(ctx, y.self(), presenceTime)
		cancel()
		switch {
		case err == nil:
			y.present = true
		case y.ctx.Err() == nil:
			y.box.cfg.Logger.Debug("this worker could not be announced", "error", err)
			y.kickOne() // the store may be out of reach: while nobody calls, nothing else would tell
		}
	}
}

// kickOne has some circuit compared with the store.
func (y *syncer) kickOne() {
	if all := y.box.all(); len(all) > 0 {
		y.kick(all[0])
	}
}

// leave takes back what announce has left. The loop has ended.
func (y *syncer) leave(ctx context.Context) {
	if !y.present {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	if err := y.store.(Presence).Announce(ctx, y.self(), 0); err != nil {
		y.box.cfg.Logger.Debug("this worker's leave could not be told", "error", err)
	}
}

// self is this worker by the store's clock.
func (y *syncer) self() Worker {
	w := y.box.Worker()
	for _, t := range []*time.Time{&w.Since, &w.Seen, &w.LocalSince, &w.LocalUntil} {
		shiftTime(t, time.Duration(y.offset.Load()))
	}
	return w
}

// lastLocal is when this process was without the store, the last time; until is
// zero while it is.
func (y *syncer) lastLocal() (since, until time.Time) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.since, y.until
}
