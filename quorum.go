package fusebox

import (
	"errors"
	"fmt"
	"sync"
)

// ErrQuorum says that too few members of a fan-out answered.
var ErrQuorum = errors.New("fusebox: too few answers")

// Quorum counts what the members of a fan-out came to, so that "enough
// answered" can be told from "enough answered, but some were never asked": a
// thin result must not look like a full one. It is safe for concurrent use.
type Quorum struct {
	mu    sync.Mutex
	tally Tally
}

// Tally is what a Quorum has counted.
type Tally struct {
	Need     int // answers that are enough
	Answered int
	Denied   int // refused by a guard: never asked
	Failed   int // asked, and failed
}

// Quorum returns a count of a fan-out for which n answers are enough; n below
// 1 counts as 1.
func (r *Run) Quorum(n int) *Quorum { return &Quorum{tally: Tally{Need: max(n, 1)}} }

// Add counts one member by the error of its call, which it returns: nil has
// answered, a *[Denial] was denied, anything else failed.
func (q *Quorum) Add(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil:
		q.tally.Answered++
	case AsDenial(err) != nil:
		q.tally.Denied++
	default:
		q.tally.Failed++
	}
	return err
}

// Tally returns the counts so far.
func (q *Quorum) Tally() Tally {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tally
}

// Met reports whether enough answered.
func (t Tally) Met() bool { return t.Answered >= t.Need }

// Thin reports whether enough answered, but fewer than were to be asked.
func (t Tally) Thin() bool { return t.Met() && t.Denied+t.Failed > 0 }

// Err is nil if enough answered, and else an error that matches [ErrQuorum]
// and tells the counts.
func (t Tally) Err() error {
	if t.Met() {
		return nil
	}
	return fmt.Errorf("%w: %v", ErrQuorum, t)
}

// String tells the counts, as in "3 of 5 answered, 2 denied (need 3)".
func (t Tally) String() string {
	s := fmt.Sprintf("%d of %d answered", t.Answered, t.Answered+t.Denied+t.Failed)
	if t.Denied > 0 {
		s += fmt.Sprintf(", %d denied", t.Denied)
	}
	if t.Failed > 0 {
		s += fmt.Sprintf(", %d failed", t.Failed)
	}
	return s + fmt.Sprintf(" (need %d)", t.Need)
}
