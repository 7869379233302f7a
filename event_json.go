package fusebox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// ErrMalformed is matched by the error for a log line that is no record: not
// JSON, without a valid time, or evidence without a known outcome. Such lines
// are skipped, counted and reported; they never stop a decision.
var ErrMalformed = errors.New("fusebox: malformed record")

// MaxLine bounds a line of the log, in bytes. The state of a circuit with the
// largest threshold that a policy may have fits.
const MaxLine = 16 << 20

// ParseEvent reads one line of the evidence log, without its line end. An
// error matches [ErrMalformed]. Unknown fields are ignored; a kind that is not
// known is kept and folding it changes nothing.
func ParseEvent(line []byte) (Event, error) {
	var e Event
	if len(line) > MaxLine {
		return e, fmt.Errorf("%w: a line of %d bytes, at most %d are read", ErrMalformed, len(line), MaxLine)
	}
	var w eventJSON
	if !scanEvent(line, &w) {
		return decodeEvent(line)
	}
	if err := w.event(&e); err != nil {
		return Event{}, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return e, nil
}

// decodeEvent is ParseEvent for lines that are written in an unusual way.
func decodeEvent(line []byte) (Event, error) {
	var w eventJSON
	if err := json.Unmarshal(line, &w); err != nil {
		return Event{}, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	var e Event
	if err := w.event(&e); err != nil {
		return Event{}, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return e, nil
}

// eventJSON is an event as the log spells it.
type eventJSON struct {
	Kind       string          `json:"kind"`
	At         string          `json:"at"`
	Circuit    string          `json:"circuit"`
	Outcome    string          `json:"outcome"`
	Class      string          `json:"class"`
	MS         float64         `json:"ms"`
	N          int             `json:"n"`
	Since      string          `json:"since"`
	Attempts   int             `json:"attempts"`
	Worker     string          `json:"worker"`
	Run        string          `json:"run"`
	Call       string          `json:"call"`
	Error      string          `json:"error"`
	V          *uint64         `json:"v"`
	Lease      string          `json:"lease"`
	Late       bool            `json:"late"`
	Overdue    bool            `json:"overdue"`
	Until      string          `json:"until"`
	Action     string          `json:"action"`
	LastResort bool            `json:"last_resort"`
	Pick       bool            `json:"pick"`
	From       string          `json:"from"`
	To         string          `json:"to"`
	Version    uint64          `json:"version"`
	Failures   int             `json:"failures"`
	Reason     string          `json:"reason"`
	Observed   bool            `json:"observed"`
	Cause      string          `json:"cause"`
	State      json.RawMessage `json:"state"`
}

func (w *eventJSON) event(e *Event) error {
	var err error
	if e.At, err = parseTime(w.At); err != nil || e.At.IsZero() {
		return fmt.Errorf("at: want an RFC 3339 time, have %q", w.At)
	}
	e.Kind = EventKind(w.Kind)
	if w.Kind == "evidence" {
		e.Kind = KindEvidence
	}
	if e.Kind == KindEvidence {
		if e.Outcome, err = ParseOutcome(w.Outcome); err != nil {
			return err
		}
	}
	if w.Circuit != "" {
		if e.Circuit, err = CanonicalName(w.Circuit); err != nil {
			return err
		}
	}
	if e.Since, err = parseTime(w.Since); err != nil {
		return fmt.Errorf("since: want an RFC 3339 time, have %q", w.Since)
	}
	if e.Until, err = parseTime(w.Until); err != nil {
		return fmt.Errorf("until: want an RFC 3339 time, have %q", w.Until)
	}
	if w.N < 0 || w.Attempts < 0 {
		return errors.New("n and attempts: want 0 or more")
	}
	if e.Kind == KindTransition || e.Kind == KindHold {
		if err := parsePhases(w, e); err != nil {
			return err
		}
	}
	if e.Kind == KindHold && w.Action != ActionLifted && (w.To == "" || e.Phase == HalfOpen) {
		return fmt.Errorf("to: want open or closed, have %q", w.To)
	}
	e.Class, e.Elapsed, e.N, e.Attempts = Class(w.Class), fromMilliseconds(w.MS), w.N, w.Attempts
	e.Worker, e.Run, e.Call, e.Error = w.Worker, w.Run, w.Call, w.Error
	e.Lease, e.Late, e.Overdue = w.Lease, w.Late, w.Overdue
	e.Action, e.LastResort, e.Pick = w.Action, w.LastResort, w.Pick
	e.Failures, e.Reason, e.Observed, e.Cause = w.Failures, Reason(w.Reason), w.Observed, w.Cause
	e.State = parseState(w.State)
	if w.V != nil {
		e.Admitted, e.Version = true, *w.V
	}
	if e.Kind == KindTransition {
		e.Version = w.Version
	}
	return nil
}

// parseState reads the state that a record carries. One that cannot be read, as
// of a version to come, leaves the record as evidence without a state.
func parseState(b []byte) *State {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	s := new(State)
	if err := json.Unmarshal(b, s); err != nil {
		return nil
	}
	return s
}

func parsePhases(w *eventJSON, e *Event) error {
	if w.To != "" {
		if err := e.Phase.UnmarshalText([]byte(w.To)); err != nil {
			return err
		}
	}
	if w.From != "" {
		return e.From.UnmarshalText([]byte(w.From))
	}
	return nil
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, err
	}
	if y := t.Year(); y < 1970 || y > 2200 { // what UnixNano can hold
		return time.Time{}, fmt.Errorf("year %d is out of range", y)
	}
	return t.UTC(), nil
}

func fromMilliseconds(ms float64) time.Duration {
	if !(ms > 0) {
		return 0
	}
	ns := ms * float64(time.Millisecond)
	if ns > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return time.Duration(math.Round(ns))
}

// AppendJSON appends the event as one line of the evidence log, without a line
// end, and returns the extended slice.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"at":"`...)
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	text := func(key, value string) {
		if value != "" {
			b = append(append(append(b, `,"`...), key...), `":`...)
			b = appendString(b, value)
		}
	}
	number := func(key string, value int) {
		if value != 0 {
			b = append(append(append(b, `,"`...), key...), `":`...)
			b = strconv.AppendInt(b, int64(value), 10)
		}
	}
	flag := func(key string, value bool) {
		if value {
			b = append(append(append(b, `,"`...), key...), `":true`...)
		}
	}
	moment := func(key string, t time.Time) {
		if !t.IsZero() {
			b = append(append(append(b, `,"`...), key...), `":"`...)
			b = t.UTC().AppendFormat(b, time.RFC3339Nano)
			b = append(b, '"')
		}
	}
	text("kind", string(e.Kind))
	text("circuit", e.Circuit)
	if e.Kind == KindEvidence {
		text("outcome", e.Outcome.String())
	}
	text("class", string(e.Class))
	if e.Elapsed > 0 {
		b = append(b, `,"ms":`...)
		b = strconv.AppendFloat(b, float64(e.Elapsed)/float64(time.Millisecond), 'f', -1, 64)
	}
	number("n", e.N)
	moment("since", e.Since)
	number("attempts", e.Attempts)
	text("worker", e.Worker)
	text("run", e.Run)
	text("call", e.Call)
	text("error", e.Error)
	if e.Kind == KindTransition {
		text("from", e.From.String())
		text("to", e.Phase.String())
		b = append(b, `,"version":`...)
		b = strconv.AppendUint(b, e.Version, 10)
		number("failures", e.Failures)
	} else if e.Admitted {
		b = append(b, `,"v":`...)
		b = strconv.AppendUint(b, e.Version, 10)
	}
	text("action", e.Action)
	if e.Kind == KindHold && e.Action != ActionLifted {
		text("to", e.Phase.String())
	}
	text("lease", e.Lease)
	flag("late", e.Late)
	flag("overdue", e.Overdue)
	flag("last_resort", e.LastResort)
	flag("pick", e.Pick)
	moment("until", e.Until)
	text("reason", string(e.Reason))
	flag("observed", e.Observed)
	text("cause", e.Cause)
	if e.State != nil {
		if state, err := json.Marshal(e.State); err == nil {
			b = append(append(b, `,"state":`...), state...)
		}
	}
	return append(b, '}')
}

// MarshalJSON writes the event as a line of the evidence log.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// UnmarshalJSON reads what [ParseEvent] reads.
func (e *Event) UnmarshalJSON(b []byte) error {
	parsed, err := ParseEvent(b)
	if err == nil {
		*e = parsed
	}
	return err
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
