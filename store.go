package fusebox

import (
	"context"
	"iter"
	"time"
)

// Store keeps circuits for several processes. Implementations live in
// filestore and redisstore; [NewMemory] is one for a single process. Every
// Store passes the suite in storetest. Its methods are safe for concurrent use.
// One that serves many hosts may have a method Quorum() int, which gives the
// [Policy.Quorum] of policies that say nothing of it.
type Store interface {
	// Apply folds events into the circuit, atomically with respect to every
	// other process, records them, and returns the state after them. Without
	// events it reads. A zero policy means the one stored with the state, or
	// the kind's; of two policies the one loaded later wins. An error means
	// that nothing of it is known to be recorded.
	Apply(ctx context.Context, circuit string, p Policy, events ...Event) (State, error)

	// Watch calls changed with states that any process changed, until ctx
	// ends; it may call more often than needed and skip what was overtaken.
	Watch(ctx context.Context, changed func(circuit string, s State)) error

	// Circuits lists the names of all circuits known to the store, in order.
	Circuits(ctx context.Context) iter.Seq2[string, error]

	// Evidence reads the circuit's log back from since on, oldest first.
	// A malformed record is yielded as an error and reading goes on.
	Evidence(ctx context.Context, circuit string, since time.Time) iter.Seq2[Event, error]

	// Close ends the use of the store. It is safe to call twice.
	Close() error
}
