package filestore

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Step is one line of a log, folded again.
type Step struct {
	Event    fusebox.Event
	Before   fusebox.State
	After    fusebox.State
	Recorded *fusebox.State // that the line carries; nil = none that holds
}

// Agrees reports whether folding gave what is recorded, if anything is.
func (s *Step) Agrees() bool {
	if s.Recorded == nil {
		return true
	}
	after, recorded := s.After, *s.Recorded
	after.Through, recorded.Through = 0, 0
	a, errA := json.Marshal(&after)
	b, errB := json.Marshal(&recorded)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// Refold folds a circuit's log again, in the order in which it was folded: file
// order, but for lines that slipped in while others were written. It gives
// exactly the recorded states. A line that is malformed is yielded as an error,
// with the step empty. Lines at the end that no state accounts for are folded
// by a clock that says now.
func Refold(circuit string, log io.Reader, now time.Time) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		r := refold{circuit: circuit, yield: yield}
		for l, err := range lines(log, 0) {
			if err != nil {
				yield(Step{}, err)
				return
			}
			if l.blank() {
				continue
			}
			e, err := l.parse(circuit)
			if err != nil {
				if !yield(Step{}, err) {
					return
				}
				continue
			}
			if !r.take(l.text, e, l.start, l.end) {
				return
			}
		}
		r.settle(func(pendingLine) bool { return true }, fusebox.Policy{}, now)
	}
}

type refold struct {
	circuit string
	yield   func(Step, error) bool
	cursor  cursor
	state   fusebox.State
	pending []pendingLine
}

// take folds a line with a state and what it accounts for, and keeps others.
func (r *refold) take(text []byte, e fusebox.Event, start, end int64) bool {
	recorded := e.State
	if !r.cursor.holds(text, &e, start, end) {
		r.pending = append(r.pending, pendingLine{e, end})
		return true
	}
	if r.state.Seed == 0 {
		r.state.Seed = recorded.Seed
	}
	if !r.settle(func(p pendingLine) bool { return !r.cursor.slippedIn(p.end) }, recorded.Policy, e.At) {
		return false
	}
	step := Step{Event: e, Before: r.state, Recorded: recorded}
	r.state = fusebox.Fold(recorded.Policy, r.state, e)
	step.After = r.state
	return r.yield(step, nil)
}

// settle folds the pending lines that are ready, by a clock that says now.
// Policy is the one where none is recorded yet.
func (r *refold) settle(ready func(pendingLine) bool, p fusebox.Policy, now time.Time) bool {
	pending := r.pending
	r.pending = nil
	for _, line := range pending {
		if !ready(line) {
			r.pending = append(r.pending, line)
			continue
		}
		step := Step{Event: line.event, Before: r.state}
		r.state = foldAt(p, r.state, line.event, now)
		step.After = r.state
		if !r.yield(step, nil) {
			return false
		}
	}
	return true
}
