package fusebox

import "time"

// Transition is one change of a circuit's phase or of its version.
type Transition struct {
	At       time.Time
	Circuit  string
	Host     string // whose own circuit it is, by the quorum's rules; "" = the circuit itself
	From, To Phase
	Version  uint64    // that began with it
	Until    time.Time // To Open: end of the cooldown; zero = it counts calls
	Failures int       // To Open: the count that caused it
	Cause    string
}

// Changed returns the transition between two states of one circuit that follow
// each other, and whether there was one.
func Changed(circuit string, before, after *State) (Transition, bool) {
	if before.Version == after.Version {
		return ownChanged(circuit, before, after)
	}
	t := Transition{
		At: after.Since, Circuit: circuit, From: before.Phase, To: after.Phase,
		Version: after.Version, Until: after.Until, Cause: after.Cause,
	}
	switch {
	case t.To == Open && t.From == Closed:
		t.Failures = after.Failures
	case t.To == Open && t.From == HalfOpen:
		t.Failures = 1
	}
	return t, true
}

// Event returns the record that tells of the transition in a log.
func (t Transition) Event() Event {
	return Event{Kind: KindTransition, At: t.At, Circuit: t.Circuit, From: t.From, Phase: t.To,
		Version: t.Version, Until: t.Until, Failures: t.Failures, Cause: t.Cause, Worker: t.Host}
}
