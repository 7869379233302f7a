package fusebox

import (
	"time"
)

// EventKind tells what an Event is. The zero kind is evidence.
type EventKind string

const (
	KindEvidence   EventKind = ""           // one observed result, or a run of successes folded into one
	KindTransition EventKind = "transition" // told by a writer after the event that caused it; folding it changes nothing
	KindLease      EventKind = "lease"      // a probe's slot: asked for, renewed, released
	KindDenied     EventKind = "denied"     // N calls were refused
	KindStart      EventKind = "start"      // a guarded process began; folding it changes nothing
	KindThrottle   EventKind = "throttle"   // an operator's throttle until Until; Until not after At lifts it
	KindHold       EventKind = "hold"       // an operator's hold, or its end
	KindTrip       EventKind = "trip"       // an operator opened the circuit
	KindReset      EventKind = "reset"      // an operator closed it
	KindCheckpoint EventKind = "checkpoint" // State replaces what was known, unless that is newer
)

// What an event of KindLease or KindHold does.
const (
	ActionGranted  = "granted"
	ActionRenewed  = "renewed"
	ActionReleased = "released"
	ActionHeld     = "held"
	ActionLifted   = "lifted"
)

// Event is one record of the evidence log: what happened, and when. Which
// fields mean something depends on Kind and Outcome; the JSON form is described
// in docs/log-format.md.
type Event struct {
	Kind    EventKind
	At      time.Time // evidence: completion; else when it happened
	Circuit string    // canonical name; "" where the log is one circuit's

	// Evidence.
	Outcome  Outcome
	Class    Class
	Elapsed  time.Duration // of the call; of each call of a run, on average
	N        int           // calls in a run of successes, or denials; 0 means 1
	Since    time.Time     // when the run's first call ended, or the first denial was
	Attempts int           // calls made, retries included; 0 means 1
	Worker   string
	Run      string
	Call     string // signature of the exact call
	Error    string // short, without secrets
	Admitted bool   // there was a permit: Version says in which version it was given
	Version  uint64 // at admission; of a transition: the version it began
	Lease    string // token of the probe's lease; "" = not a probe
	Late     bool   // recorded, but has no vote
	Overdue  bool   // counted before its end, when it had run for too long

	Until time.Time // end of a throttle (a Failure may name one too), a lease, a hold, a cooldown; zero = none

	Action     string // of KindLease and KindHold
	LastResort bool   // KindLease: a probe before the deadline, because nothing else is left
	Pick       bool   // KindLease: whoever reports next settles it; `fusebox pick` hands it out
	Phase      Phase  // KindHold: held at; KindTransition: to
	From       Phase  // KindTransition
	Failures   int    // KindTransition: the count that caused it
	Reason     Reason // KindDenied
	Observed   bool   // KindDenied: would have been refused
	Cause      string // an operator's reason; of a transition: what caused it
	State      *State // KindCheckpoint; in a log also of other kinds: the state after them

	// Seen is when the event was folded, if that was before At: the writer's
	// clock was ahead. Such an event does not count while it is in the future.
	// It is not recorded; a reader of a log takes it from the line that was
	// written after it.
	Seen time.Time

	// ID tells the event from all others where a report may have to be sent
	// again because its answer was lost: a store whose answers can get lost folds
	// what bears an ID once.
	// Zero = it is sent once. It is not recorded.
	ID EventID
}

// EventID is who reports, by a name that nobody else uses, and a number that
// grows with each of the reporter's events on a circuit.
type EventID struct {
	From string
	N    uint64
}

// maxCount bounds what one record can add to a count, so that no log makes one
// overflow.
const maxCount = 1 << 30

// count returns N, at least 1.
func (e *Event) count() int { return min(max(e.N, 1), maxCount) }

// clock returns the time at which e is judged.
func (e *Event) clock() time.Time {
	if !e.Seen.IsZero() && e.Seen.Before(e.At) {
		return e.Seen
	}
	return e.At
}

// utc makes the event's times UTC, as all stored ones are.
func (e *Event) utc() {
	e.At, e.Since, e.Until, e.Seen = e.At.UTC(), e.Since.UTC(), e.Until.UTC(), e.Seen.UTC()
}

// start returns when the call began that e reports.
func (e *Event) start() time.Time { return e.At.Add(-e.Elapsed) }

// MarkLate sets Late on a result that has no vote in s, the state before it:
// its call was admitted in another version, or its lease was taken over.
// Stores call it before they fold and record an event.
func (e *Event) MarkLate(s *State) {
	if e.Kind != KindEvidence || !e.Admitted {
		return
	}
	if e.Version != s.Version || e.Lease != "" && !s.HasLease(e.Lease) {
		e.Late = true
	}
}
