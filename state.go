package fusebox

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Phase is where a circuit is: see the picture in the package documentation.
type Phase uint8

const (
	Closed   Phase = iota // calls pass, failures are counted
	Open                  // calls are refused until the cooldown is over
	HalfOpen              // probes decide
)

var phaseNames = [...]string{"closed", "open", "half-open"}

// String returns "closed", "open" or "half-open".
func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// MarshalText spells the phase as [Phase.String] does.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what [Phase.String] returns.
func (p *Phase) UnmarshalText(b []byte) error {
	i := slices.Index(phaseNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("fusebox: unknown phase %q", b)
	}
	*p = Phase(i)
	return nil
}

// Health is what is known of a dependency. Unknown is not down: it is usable.
type Health uint8

const (
	Unknown Health = iota // no evidence
	Up                    // closed, with evidence
	Down                  // open or half-open
)

// String returns "unknown", "up" or "down".
func (h Health) String() string { return [...]string{"unknown", "up", "down"}[min(h, Down)] }

// MarshalText spells the health as [Health.String] does.
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// State is all that is known of one circuit: a value that [Fold] derives from
// the evidence. The zero State is a closed circuit without evidence.
type State struct {
	Phase    Phase     `json:"phase"`
	Version  uint64    `json:"version"`        // counts transitions and holds
	Revision uint64    `json:"revision"`       // counts the events folded
	Since    time.Time `json:"since,omitzero"` // when this version began
	Until    time.Time `json:"until,omitzero"` // Open: end of the cooldown; zero = it counts calls
	Cause    string    `json:"cause,omitempty"`
	Seed     uint64    `json:"seed,omitempty"` // of the jitter

	Failures     int     `json:"failures,omitempty"`      // the count that opened it; while closed see CountAt
	FailedProbes int     `json:"failed_probes,omitempty"` // failed probes since it opened
	Refused      int     `json:"refused,omitempty"`       // refusals since this cooldown began
	Denied       int     `json:"denied,omitempty"`        // refusals since it last opened
	Passed       int     `json:"passed,omitempty"`        // HalfOpen: successful probes so far
	Leases       []Lease `json:"leases,omitempty"`        // HalfOpen: probes under way
	Resort       bool    `json:"last_resort,omitempty"`   // this cooldown's last-resort probe was granted

	Hold      *Hold     `json:"hold,omitempty"`
	Throttled time.Time `json:"throttled_until,omitzero"`
	Throttles int       `json:"throttles,omitempty"` // in a row, without a time given

	Votes   uint64   `json:"votes,omitempty"`   // results that voted since it last closed
	Worked  uint64   `json:"worked,omitempty"`  // number of the last vote that worked
	Streak  int      `json:"streak,omitempty"`  // failures in a row
	Marks   Marks    `json:"marks,omitempty"`   // newest failures, in the order they were folded
	Windows []Window `json:"windows,omitempty"` // one per Rate and Slow rule

	Hosts      []Host `json:"hosts,omitempty"`       // under a quorum: that reported lately
	LastProber string `json:"last_prober,omitempty"` // under a quorum: the host whose probe failed last, until it closes

	Checked     time.Time     `json:"checked_at,omitzero"`  // newest evidence; zero = unknown
	Latest      time.Time     `json:"latest,omitzero"`      // newest time at which evidence was judged
	Latency     time.Duration `json:"latency_ns,omitempty"` // moving average of calls that answered
	LastError   string        `json:"last_error,omitempty"`
	LastClass   Class         `json:"last_class,omitempty"`
	LastFailure time.Time     `json:"last_failure,omitzero"`

	Policy  Policy `json:"policy,omitzero"`   // by which it was last folded
	Through int64  `json:"through,omitempty"` // byte of the log up to which it was folded

	times []time.Time // of the marks, in their order, where there are many
	ownOf string      // of what [State.For] returns: the host whose own circuit it is

	// Now is the store's clock when this state was read, for turning Until
	// into a time to wait. It is not recorded; zero = the reader's clock.
	Now time.Time `json:"-"`
}

// Lease is a probe's slot. Token is unique per grant; Token and the state's
// version together are the fence: a report with another pair is void.
type Lease struct {
	Token  string    `json:"token"`
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero = no deadline
	Worker string    `json:"worker,omitempty"`
	Pick   bool      `json:"pick,omitempty"` // settled by whoever reports next
	Resort bool      `json:"last_resort,omitempty"`
}

// live reports whether the lease still keeps its slot at t.
func (l *Lease) live(t time.Time) bool { return l.Until.IsZero() || t.Before(l.Until) }

// Hold is an operator's override.
type Hold struct {
	To     Phase     `json:"to"` // Open or Closed
	At     time.Time `json:"at"`
	Until  time.Time `json:"until,omitzero"` // zero = until lifted
	Reason string    `json:"reason,omitempty"`
}

// active reports whether the hold is in force at t.
func (h *Hold) active(t time.Time) bool {
	return h != nil && (h.Until.IsZero() || t.Before(h.Until))
}

// Marks are the failures that count rules look back on.
type Marks []Mark

// Mark is one failure that counted.
type Mark struct {
	At   time.Time
	Vote uint64 // its number among the votes
	Call uint64 // hash of run and call; 0 = not given
}

// Reason says why a call was refused.
type Reason string

const (
	ReasonOpen      Reason = "open"
	ReasonProbing   Reason = "probing"
	ReasonThrottled Reason = "throttled"
	ReasonThrash    Reason = "thrash"
	ReasonStuck     Reason = "stuck"
	ReasonHeld      Reason = "held"
)

// Decision is what a state says of a call at one instant.
type Decision struct {
	Go         bool          // let it through
	Probe      bool          // the cooldown is over and a slot is free: ask for a lease, and go if it is granted
	Reason     Reason        // why not
	RetryAfter time.Duration // until it is worth asking again; 0 = unknown or now
}

// Decide says whether a call may go at t. It has no effects. The order is:
// held, throttled, open.
func (s *State) Decide(t time.Time) Decision {
	if s.Hold.active(t) && s.Hold.To == Open {
		return Decision{Reason: ReasonHeld, RetryAfter: untilOr(s.Hold.Until, t, 0)}
	}
	if t.Before(s.Throttled) {
		return Decision{Reason: ReasonThrottled, RetryAfter: s.Throttled.Sub(t)}
	}
	if s.Hold.active(t) { // held closed
		return Decision{Go: true}
	}
	switch s.Phase {
	case Open:
		if s.due(t) {
			return Decision{Probe: true}
		}
		return Decision{Reason: ReasonOpen, RetryAfter: s.remaining(t)}
	case HalfOpen:
		if s.freeSlots(t) > 0 {
			return Decision{Probe: true}
		}
		return Decision{Reason: ReasonProbing, RetryAfter: s.nextSlot(t)}
	}
	return Decision{Go: true}
}

// countsRefusals reports whether an open circuit's cooldown is a number of
// refused calls instead of a time.
func (s *State) countsRefusals() bool { return s.Until.IsZero() }

// due reports whether an open circuit may be probed at t.
func (s *State) due(t time.Time) bool {
	if s.countsRefusals() {
		return s.Refused >= s.Policy.Cooldown.Calls
	}
	return s.remaining(t) <= 0
}

// remaining is the cooldown left at t. It is never longer than the whole
// cooldown, so that a clock that was set back cannot pin the circuit open.
func (s *State) remaining(t time.Time) time.Duration {
	until := s.Until
	if s.Hold != nil && s.Hold.To == Open && s.Hold.Until.After(until) {
		until = s.Hold.Until
	}
	if until.IsZero() {
		return 0
	}
	left := until.Sub(t)
	if whole := until.Sub(s.Since); left > whole {
		left = whole
	}
	return max(left, 0)
}

func (s *State) freeSlots(t time.Time) int {
	free := max(s.Policy.Probe.Concurrent, 1)
	for i := range s.Leases {
		if s.Leases[i].live(t) {
			free--
		}
	}
	return free
}

// nextSlot is the time until the first lease lapses.
func (s *State) nextSlot(t time.Time) time.Duration {
	var next time.Duration
	for i := range s.Leases {
		if l := &s.Leases[i]; l.live(t) && !l.Until.IsZero() {
			if left := l.Until.Sub(t); next == 0 || left < next {
				next = left
			}
		}
	}
	return next
}

// PhaseAt is the phase that decides at t, holds included.
func (s *State) PhaseAt(t time.Time) Phase {
	if s.Hold.active(t) {
		return s.Hold.To
	}
	return s.Phase
}

// HealthAt is the dependency's health at t.
func (s *State) HealthAt(t time.Time) Health {
	if s.PhaseAt(t) != Closed {
		return Down
	}
	if s.Checked.IsZero() {
		return Unknown
	}
	return Up
}

// HasLease reports whether token holds a slot, lapsed or not: the circuit's, or
// one of a host's own.
func (s *State) HasLease(token string) bool {
	return s.lease(token) >= 0 || slices.ContainsFunc(s.Hosts, func(h Host) bool {
		return h.Own != nil && slices.ContainsFunc(h.Own.Leases, func(l Lease) bool { return l.Token == token })
	})
}

func (s *State) lease(token string) int {
	return slices.IndexFunc(s.Leases, func(l Lease) bool { return l.Token == token })
}

func untilOr(until, t time.Time, or time.Duration) time.Duration {
	if until.IsZero() {
		return or
	}
	return until.Sub(t)
}

// UnmarshalJSON reads a state from a log. One that no fold can have made is
// refused, so that whoever decides by it need not fear its numbers.
func (s *State) UnmarshalJSON(b []byte) error {
	type plain State
	var p plain
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	if what := (*State)(&p).impossible(); what != "" {
		return fmt.Errorf("fusebox: a state with impossible %s", what)
	}
	*s = State(p)
	return nil
}

// impossible names what no fold can have made, or returns "".
func (s *State) impossible() string {
	if min(s.Failures, s.FailedProbes, s.Refused, s.Denied, s.Passed, s.Throttles, s.Streak) < 0 || s.Latency < 0 {
		return "counts"
	}
	if s.Hold != nil && s.Hold.To == HalfOpen {
		return "hold"
	}
	for _, w := range s.Windows {
		if len(w.Buckets) > windowBuckets {
			return "windows"
		}
		for _, b := range w.Buckets {
			if b.Bad < 0 || b.All < b.Bad {
				return "windows"
			}
		}
	}
	if len(s.Hosts) > MaxQuorum {
		return "hosts"
	}
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Own != nil {
			if own := h.state(s); s.Phase != Closed || own.impossible() != "" {
				return "hosts"
			}
		}
	}
	return ""
}

// clone returns a copy that shares nothing that Fold changes.
func (s State) clone() State {
	s.Leases = slices.Clone(s.Leases)
	s.Marks, s.times = slices.Clone(s.Marks), slices.Clone(s.times)
	s.Windows = cloneWindows(s.Windows)
	if s.Hold != nil {
		h := *s.Hold
		s.Hold = &h
	}
	s.Hosts = slices.Clone(s.Hosts)
	for i := range s.Hosts {
		if own := s.Hosts[i].Own; own != nil {
			s.Hosts[i].Own = own.clone()
		}
	}
	return s
}

func cloneWindows(windows []Window) []Window {
	windows = slices.Clone(windows)
	for i := range windows {
		windows[i].Buckets = slices.Clone(windows[i].Buckets)
	}
	return windows
}
