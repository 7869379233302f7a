package fusebox

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Denial is the refusal of a call: why, for how long, what was seen, and what
// the caller should do instead. It is an error; errors.Is matches it with the
// sentinel of its reason, as [ErrOpen]. It is immutable and safe for concurrent
// use.
type Denial struct {
	circuit  string
	reason   Reason
	until    time.Time // when asking again is worth it; zero = unknown
	failures int
	last     string
	run      string
	text     string // the instruction, if somebody made one; else texts' own
	now      func() time.Time

	// For the wording.
	texts   *Texts   // nil = the built-in ones
	script  string   // which text; "" = the reason's
	times   int      // how often the run was refused this; 0 and 1 = the first time
	working []string // what else works
}

// DenialInfo is what a Denial says, as plain values: for those who make one.
type DenialInfo struct {
	Circuit     string
	Reason      Reason
	Until       time.Time // when asking again is worth it; zero = unknown
	Failures    int
	LastError   string
	Run         string
	Instruction string // "" = the built-in text
}

// NewDenial makes a Denial. Fronts and stores use it; circuits make their own.
func NewDenial(d DenialInfo) *Denial {
	return &Denial{circuit: d.Circuit, reason: d.Reason, until: d.Until, failures: d.Failures,
		last: ShortText(d.LastError), run: d.Run, text: d.Instruction}
}

// Denial words the refusal of the named circuit by s at t, for those who decide
// by a state. A slot for a probe that is free at t counts as just taken by
// another.
func (s *State) Denial(circuit string, t time.Time) *Denial {
	d := s.Decide(t)
	info := DenialInfo{Circuit: circuit, Reason: d.Reason, Failures: s.CountAt(t), LastError: s.LastError}
	if d.Probe {
		info.Reason = ReasonProbing
	}
	if d.RetryAfter > 0 {
		info.Until = time.Now().Add(d.RetryAfter) // t may be of another clock, as a store's
	}
	return NewDenial(info)
}

// AsDenial returns the Denial in err's chain, or nil.
func AsDenial(err error) *Denial {
	d, _ := errors.AsType[*Denial](err)
	return d
}

// Circuit returns the name of the circuit that refused.
func (d *Denial) Circuit() string { return d.circuit }

// Reason returns why.
func (d *Denial) Reason() Reason { return d.reason }

// Failures returns the count that led to it.
func (d *Denial) Failures() int { return d.failures }

// LastError returns the last failure's short text, without secrets.
func (d *Denial) LastError() string { return d.last }

// Run returns the run that was refused, or "".
func (d *Denial) Run() string { return d.run }

// RetryAfter returns how long it is until asking again is worth it, as of now;
// 0 means that it is not known, or now.
func (d *Denial) RetryAfter() time.Duration {
	if d.now != nil {
		return d.RetryAfterAt(d.now())
	}
	return d.RetryAfterAt(time.Now())
}

// RetryAfterAt is RetryAfter as of t.
func (d *Denial) RetryAfterAt(t time.Time) time.Duration {
	if d.until.IsZero() {
		return 0
	}
	return max(d.until.Sub(t), 0)
}

// Instruction tells the caller, in the imperative, what is blocked and what to
// do instead. It never says to try again.
func (d *Denial) Instruction() string {
	if d.text != "" {
		return d.text
	}
	return d.texts.instruction(d)
}

// Error returns the instruction.
func (d *Denial) Error() string { return d.Instruction() }

// Is reports whether target is the sentinel of the denial's reason.
func (d *Denial) Is(target error) bool { return target != nil && target == d.reason.sentinel() }

func (r Reason) sentinel() error {
	switch r {
	case ReasonOpen:
		return ErrOpen
	case ReasonProbing:
		return ErrProbing
	case ReasonThrottled:
		return ErrThrottled
	case ReasonThrash:
		return ErrThrash
	case ReasonStuck:
		return ErrStuck
	case ReasonHeld:
		return ErrHeld
	}
	return nil
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Seconds rounds a wait up to whole seconds, so that who waits so long is not early.
func Seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// denialJSON is the contract's form of a denial.
type denialJSON struct {
	Circuit     string  `json:"circuit"`
	Reason      Reason  `json:"reason"`
	RetryAfter  float64 `json:"retry_after_s"`
	Failures    int     `json:"failures"`
	Instruction string  `json:"instruction"`
	LastError   string  `json:"last_error,omitempty"`
	Run         string  `json:"run,omitempty"`
}

// MarshalJSON writes {"circuit":…,"reason":…,"retry_after_s":…,"failures":…,"instruction":…},
// which fronts put under the key "denied".
func (d *Denial) MarshalJSON() ([]byte, error) {
	return marshal(denialJSON{d.circuit, d.reason, roundMillis(d.RetryAfter()), d.failures, d.Instruction(), d.last, d.run})
}

func roundMillis(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
