package fusebox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// outbox carries what circuits have to tell to the listeners: in order, each
// once, after the circuit's lock is gone.
type outbox struct {
	log      *slog.Logger
	wanted   atomic.Bool // somebody listens to evidence
	mu       sync.Mutex
	queue    []any // Transition, Event or Notice
	busy     bool
	idle     chan struct{} // closed when busy ends; nil = nobody waits for that
	next     int
	onChange []listener[Transition]
	onEvent  []listener[Event]
	onNotice []listener[Notice]
}

type listener[T any] struct {
	id int
	f  func(T)
}

func (o *outbox) transition(t Transition) {
	o.mu.Lock()
	if len(o.onChange) > 0 {
		o.queue = append(o.queue, t)
	}
	o.mu.Unlock()
}

func (o *outbox) evidence(e Event) {
	if !o.wanted.Load() {
		return
	}
	o.mu.Lock()
	o.queue = append(o.queue, e)
	o.mu.Unlock()
}

// deliver calls the listeners until nothing is left to tell. A listener may
// call back into any circuit: what that causes is told after this.
func (b *Box) deliver() {
	o := &b.out
	o.mu.Lock()
	if o.busy {
		o.mu.Unlock()
		return
	}
	o.busy = true
	defer func() { // also when a listener calls runtime.Goexit
		o.busy = false
		if o.idle != nil {
			close(o.idle)
			o.idle = nil
		}
		o.mu.Unlock()
	}()
	for len(o.queue) > 0 {
		item := o.queue[0]
		o.queue = o.queue[1:]
		switch item := item.(type) {
		case Transition:
			send(o, item, slices.Clone(o.onChange))
		case Event:
			send(o, item, slices.Clone(o.onEvent))
		case Notice:
			send(o, item, slices.Clone(o.onNotice))
		}
	}
	o.queue = nil
}

// settle delivers, and waits for whoever is delivering already: afterwards the
// listeners have heard of everything that happened before.
func (b *Box) settle(ctx context.Context) error {
	o := &b.out
	for {
		b.deliver()
		o.mu.Lock()
		if !o.busy {
			o.mu.Unlock()
			return nil
		}
		if o.idle == nil {
			o.idle = make(chan struct{})
		}
		idle := o.idle
		o.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send calls the listeners without the lock, which the caller holds.
func send[T any](o *outbox, item T, listeners []listener[T]) {
	o.mu.Unlock()
	defer o.mu.Lock()
	for _, l := range listeners {
		contain(o.log, func() { l.f(item) })
	}
}

// contain calls f and keeps its panic to itself.
func contain(log *slog.Logger, f func()) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("a listener panicked", "panic", fmt.Sprint(r))
		}
	}()
	f()
}

// OnTransition calls f for every transition of every circuit, in order, each
// once, after the circuit's lock is gone, with the counts that caused it. f may
// call back into the circuit; its panic is contained and logged. stop ends it.
func (b *Box) OnTransition(f func(Transition)) (stop func()) {
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	id := b.out.next
	b.out.next++
	b.out.onChange = append(b.out.onChange, listener[Transition]{id, f})
	return func() {
		b.out.mu.Lock()
		defer b.out.mu.Unlock()
		b.out.onChange = slices.DeleteFunc(b.out.onChange, func(l listener[Transition]) bool { return l.id == id })
	}
}

// OnEvidence calls f for every record that this process makes, as
// [Box.OnTransition] does. Successes come folded into runs, at the latest with
// [Box.Flush]. Listen before circuits are used: what was counted before has no
// times.
func (b *Box) OnEvidence(f func(Event)) (stop func()) {
	b.out.mu.Lock()
	id := b.out.next
	b.out.next++
	b.out.onEvent = append(b.out.onEvent, listener[Event]{id, f})
	b.out.wanted.Store(true)
	b.out.mu.Unlock()
	b.renew()
	return func() {
		b.out.mu.Lock()
		b.out.onEvent = slices.DeleteFunc(b.out.onEvent, func(l listener[Event]) bool { return l.id == id })
		b.out.wanted.Store(len(b.out.onEvent) > 0)
		b.out.mu.Unlock()
		b.renew()
	}
}
