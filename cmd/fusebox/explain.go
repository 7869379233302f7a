package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fusebox-go/fusebox"
)

// maxRecords bounds the records that an explanation keeps.
const maxRecords = 1000

// explanation is how a circuit came to be where it is: the records of its log
// since it was last closed for good, folded again one by one.
type explanation struct {
	Status    fusebox.Status `json:"status"`
	Policy    []string       `json:"policy"`
	Records   []record       `json:"records"`
	Omitted   int            `json:"omitted"`   // older records of the same time that are not shown
	Malformed int            `json:"malformed"` // lines of the log that are no records
}

// record is one record of the log and what it did.
type record struct {
	Event   fusebox.Event `json:"record"`
	Counted bool          `json:"counted"`
	Effect  string        `json:"effect,omitempty"`

	mark bool // a failure that the rules look at
}

// explain folds the circuit's log again.
func explain(ctx context.Context, store fusebox.Store, circuit string) (*explanation, error) {
	now, err := store.Apply(ctx, circuit, fusebox.Policy{})
	if err != nil {
		return nil, err
	}
	x := &explanation{Status: now.StatusAt(circuit, now.Clock()), Records: []record{}}
	x.Policy = x.Status.Policy.Words()
	s := fusebox.State{Policy: now.Policy, Seed: now.Seed} // for lines that say nothing of it
	for e, err := range store.Evidence(ctx, circuit, time.Time{}) {
		if errors.Is(err, fusebox.ErrMalformed) {
			x.Malformed++
			continue
		}
		if err != nil {
			return nil, err
		}
		e.Circuit = circuit
		s = x.fold(s, e)
	}
	x.trim()
	if s.Phase == fusebox.Closed {
		x.countNewest(x.Status.Failures, "")
	}
	return x, nil
}

// fold folds one record and keeps it with what it did.
func (x *explanation) fold(before fusebox.State, e fusebox.Event) fusebox.State {
	if e.State != nil { // the writer's policy and seed
		before.Policy, before.Seed = e.State.Policy, e.State.Seed
	}
	after := fusebox.Fold(fusebox.Policy{}, before, e)
	if e.State != nil {
		after = *e.State
	}
	e.State = nil
	r := record{Event: e, Effect: effect(&before, &after, &e)}
	r.mark = after.Streak > before.Streak
	transition, moved := fusebox.Changed(e.Circuit, &before, &after)
	if moved {
		r.Counted = true
		if transition.From == fusebox.Closed && transition.To == fusebox.Open {
			earlier := transition.Failures
			if e.Kind == fusebox.KindEvidence {
				earlier-- // this record is the last of them
			}
			x.countNewest(earlier, transition.Host)
		}
		if transition.To == fusebox.Closed && transition.Host == "" && after.Votes == 0 { // what came before counts no more
			x.Records, x.Omitted = x.Records[:0], 0
		}
	}
	if e.Kind == fusebox.KindTransition || e.Kind == fusebox.KindCheckpoint && !moved {
		return after // tells of what the record before it did
	}
	x.Records = append(x.Records, r)
	if len(x.Records) == 2*maxRecords {
		x.trim()
	}
	return after
}

// trim leaves the newest records.
func (x *explanation) trim() {
	if extra := len(x.Records) - maxRecords; extra > 0 {
		x.Records = append(x.Records[:0], x.Records[extra:]...)
		x.Omitted += extra
	}
}

// countNewest marks the newest n failures as the ones that counted: of the host,
// if its own circuit is meant.
func (x *explanation) countNewest(n int, host string) {
	for i := len(x.Records) - 1; i >= 0 && n > 0; i-- {
		if r := &x.Records[i]; r.mark && (host == "" || fusebox.HostOf(r.Event.Worker) == host) {
			r.Counted = true
			n--
		}
	}
}

// effect says in words what a record did to the state; "" = nothing.
func effect(before, after *fusebox.State, e *fusebox.Event) string {
	if t, moved := fusebox.Changed(e.Circuit, before, after); moved {
		if t.From == t.To {
			return t.Cause
		}
		text := transitionWords(t.From, t.To, t.Host) + ": " + t.Cause
		if t.Until.After(e.At) { // a hold leaves no cooldown behind
			text += fmt.Sprintf(", until %s", clock(t.Until))
		}
		return text
	}
	switch e.Kind {
	case fusebox.KindEvidence:
		return evidenceEffect(before, after, e)
	case fusebox.KindDenied:
		return "refused"
	case fusebox.KindLease:
		switch {
		case len(after.Leases) > len(before.Leases):
			return "a probe's slot is taken"
		case len(after.Leases) < len(before.Leases):
			return "a probe's slot is free again"
		}
	case fusebox.KindThrottle, fusebox.KindHold, fusebox.KindTrip, fusebox.KindReset:
		if !after.Throttled.Equal(before.Throttled) {
			return throttleEffect(after, e)
		}
		return "no effect"
	}
	return ""
}

func evidenceEffect(before, after *fusebox.State, e *fusebox.Event) string {
	switch {
	case e.Late:
		return "late: no vote"
	case e.Outcome == fusebox.Canceled:
		return "the caller gave up: no vote"
	case e.Outcome == fusebox.Throttled:
		return throttleEffect(after, e)
	case after.Passed > before.Passed:
		return "a probe that succeeded"
	case before.Phase != fusebox.Closed, before.Hold != nil:
		return "no vote while " + before.Phase.String()
	case after.Votes == before.Votes && e.Outcome == fusebox.Failure:
		return "no vote: a repeat, or from before"
	case after.Votes == before.Votes:
		return "no vote: from before"
	case after.Streak > before.Streak:
		return "a failure"
	case e.Outcome == fusebox.Failure:
		return "slower than the failures that count: a call that worked"
	}
	return ""
}

func throttleEffect(after *fusebox.State, e *fusebox.Event) string {
	if !after.Throttled.After(e.At) {
		return "throttle ended"
	}
	return "throttled until " + clock(after.Throttled)
}

// clock is a time of day, with the day if that is not today's.
func clock(t time.Time) string {
	local := t.Local()
	if y, m, d := time.Now().Date(); local.Year() == y && local.Month() == m && local.Day() == d {
		return local.Format("15:04:05")
	}
	return local.Format("2006-01-02 15:04:05")
}
