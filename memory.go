package fusebox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// maxMemoryLog is how many records of a circuit the in-memory store keeps.
const maxMemoryLog = 10_000

// Memory is a [Store] in memory: for several boxes in one process, and for
// tests. Make one with [NewMemory].
type Memory struct {
	// Clock is the store's clock; nil = time.Now. Set it before the first use.
	Clock func() time.Time

	mu       sync.Mutex
	circuits map[string]*memoryCircuit
	workers  map[string]memoryWorker
	shares   map[string]Shares
	watchers map[int]chan struct{}
	next     int
	closed   bool
}

type memoryWorker struct {
	Worker
	until time.Time
}

type memoryCircuit struct {
	state State
	log   []Event
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{circuits: map[string]*memoryCircuit{}, workers: map[string]memoryWorker{}, shares: map[string]Shares{}, watchers: map[int]chan struct{}{}}
}

func (m *Memory) now() time.Time {
	if m.Clock != nil {
		return m.Clock().Round(0).UTC()
	}
	return time.Now().Round(0).UTC()
}

// Apply implements [Store].
func (m *Memory) Apply(ctx context.Context, circuit string, p Policy, events ...Event) (State, error) {
	if err := ctx.Err(); err != nil {
		return State{}, err
	}
	name, err := CanonicalName(circuit)
	if err != nil {
		return State{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return State{}, fmt.Errorf("memory store: %w", ErrClosed)
	}
	now := m.now()
	c := m.circuits[name]
	if c == nil {
		c = &memoryCircuit{state: State{Seed: rand.Uint64() >> 11}}
	}
	if len(events) == 0 {
		s := c.state.clone()
		s.adopt(p, name)
		s.Now = now
		return s, nil
	}
	m.circuits[name] = c
	for _, e := range events {
		e.Circuit = name
		if e.At.After(now) {
			e.Seen = now
		}
		e.MarkLate(&c.state)
		before := c.state
		c.state = Fold(p, c.state, e)
		c.log = append(c.log, e)
		if t, changed := Changed(name, &before, &c.state); changed {
			c.log = append(c.log, t.Event())
		}
	}
	c.log = slices.Delete(c.log, 0, max(len(c.log)-maxMemoryLog, 0))
	for _, w := range m.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
	s := c.state.clone()
	s.Now = now
	return s, nil
}

// Share implements [Sharer].
func (m *Memory) Share(ctx context.Context, name string, c Claim) (Share, error) {
	if err := errors.Join(ctx.Err(), c.Validate()); err != nil {
		return Share{}, err
	}
	name, err := CanonicalName(name)
	if err != nil {
		return Share{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Share{}, fmt.Errorf("memory store: %w", ErrClosed)
	}
	if m.shares[name] == nil {
		m.shares[name] = Shares{}
	}
	return m.shares[name].Claim(c, m.now()), nil
}

// Watch implements [Store].
func (m *Memory) Watch(ctx context.Context, changed func(circuit string, s State)) error {
	wake := make(chan struct{}, 1)
	m.mu.Lock()
	id := m.next
	m.next++
	m.watchers[id] = wake
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.watchers, id)
		m.mu.Unlock()
	}()
	seen := map[string]uint64{}
	for {
		for name, s := range m.newer(seen) {
			changed(name, s)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// newer returns the states that changed since seen, and notes them there.
func (m *Memory) newer(seen map[string]uint64) map[string]State {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]State{}
	for name, c := range m.circuits {
		if c.state.Revision > seen[name] {
			seen[name] = c.state.Revision
			s := c.state.clone()
			s.Now = m.now()
			states[name] = s
		}
	}
	return states
}

// Circuits implements [Store].
func (m *Memory) Circuits(context.Context) iter.Seq2[string, error] {
	m.mu.Lock()
	names := slices.Sorted(maps.Keys(m.circuits))
	m.mu.Unlock()
	return func(yield func(string, error) bool) {
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Evidence implements [Store]. It keeps the newest 10,000 records a circuit.
func (m *Memory) Evidence(_ context.Context, circuit string, since time.Time) iter.Seq2[Event, error] {
	m.mu.Lock()
	var log []Event
	name, err := CanonicalName(circuit)
	if c := m.circuits[name]; c != nil {
		log = slices.Clone(c.log)
	}
	m.mu.Unlock()
	return func(yield func(Event, error) bool) {
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, e := range log {
			if !e.At.Before(since) && !yield(e, nil) {
				return
			}
		}
	}
}

// Announce implements [Presence].
func (m *Memory) Announce(ctx context.Context, w Worker, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("memory store: %w", ErrClosed)
	}
	w.Seen = m.now()
	delete(m.workers, w.ID)
	m.forgetWorkers(w.Seen)
	if ttl <= 0 {
		return nil
	}
	if len(m.workers) >= MaxWorkers {
		return fmt.Errorf("memory store: %d workers are there already", MaxWorkers)
	}
	m.workers[w.ID] = memoryWorker{w, w.Seen.Add(ttl)}
	return nil
}

// Workers implements [Presence].
func (m *Memory) Workers(ctx context.Context) ([]Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("memory store: %w", ErrClosed)
	}
	m.forgetWorkers(m.now())
	var there []Worker
	for _, w := range m.workers {
		there = append(there, w.Worker)
	}
	slices.SortFunc(there, Worker.Compare)
	return there, nil
}

// forgetWorkers drops those whose time is over.
func (m *Memory) forgetWorkers(now time.Time) {
	maps.DeleteFunc(m.workers, func(_ string, w memoryWorker) bool { return !now.Before(w.until) })
}

// String names the store.
func (m *Memory) String() string { return "memory" }

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
