package fusebox

import (
	"encoding/json"
	"strconv"
)

// scanEvent reads a line as programs write it into w: one flat object of keys
// that are known, exactly spelled, with plain texts, numbers and flags, and
// perhaps a state. It takes a tenth of the time that encoding/json takes, and
// reports false for every other line, which encoding/json then judges. What it
// accepts, it reads as encoding/json would.
func scanEvent(line []byte, w *eventJSON) bool {
	s := lineScanner{b: line}
	if !s.take('{') {
		return false
	}
	for {
		key, ok := s.text()
		if !ok || !s.take(':') {
			return false
		}
		s.space()
		switch c := s.peek(); {
		case c == '"':
			var value []byte
			if value, ok = s.text(); ok {
				ok = w.setText(key, value)
			}
		case c == '{':
			var value []byte
			if value, ok = s.object(); ok && string(key) == "state" {
				w.State = value
			} else {
				ok = false
			}
		case c == 't' || c == 'f':
			ok = w.setFlag(key, s.word())
		default:
			ok = w.setNumber(key, s.word())
		}
		if !ok {
			return false
		}
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return false
		}
		s.space()
		return s.i == len(s.b)
	}
}

func (w *eventJSON) setText(key, value []byte) bool {
	var to *string
	switch string(key) {
	case "kind":
		to = &w.Kind
	case "at":
		to = &w.At
	case "circuit":
		to = &w.Circuit
	case "outcome":
		to = &w.Outcome
	case "class":
		to = &w.Class
	case "since":
		to = &w.Since
	case "worker":
		to = &w.Worker
	case "run":
		to = &w.Run
	case "call":
		to = &w.Call
	case "error":
		to = &w.Error
	case "lease":
		to = &w.Lease
	case "until":
		to = &w.Until
	case "action":
		to = &w.Action
	case "from":
		to = &w.From
	case "to":
		to = &w.To
	case "reason":
		to = &w.Reason
	case "cause":
		to = &w.Cause
	default:
		return false
	}
	known, ok := logWords[string(value)]
	if !ok {
		known = string(value)
	}
	*to = known
	return true
}

// logWords are the texts that stand in most lines: they need not be copied.
var logWords = func() map[string]string {
	words := map[string]string{}
	add := func(word string) { words[word] = word }
	for _, o := range outcomeNames {
		add(o)
	}
	for _, c := range Classes {
		add(string(c))
	}
	for _, k := range []EventKind{KindTransition, KindLease, KindDenied, KindStart} {
		add(string(k))
	}
	for _, a := range []string{ActionGranted, ActionRenewed, ActionReleased} {
		add(a)
	}
	return words
}()

func (w *eventJSON) setFlag(key, value []byte) bool {
	set := string(value) == "true"
	if !set && string(value) != "false" {
		return false
	}
	switch string(key) {
	case "late":
		w.Late = set
	case "overdue":
		w.Overdue = set
	case "last_resort":
		w.LastResort = set
	case "pick":
		w.Pick = set
	case "observed":
		w.Observed = set
	default:
		return false
	}
	return true
}

func (w *eventJSON) setNumber(key, value []byte) bool {
	if string(key) == "ms" {
		if !isDecimal(value) {
			return false
		}
		ms, err := strconv.ParseFloat(string(value), 64)
		w.MS = ms
		return err == nil
	}
	n, ok := wholeNumber(value)
	if !ok {
		return false
	}
	switch string(key) {
	case "n":
		w.N = int(n)
	case "attempts":
		w.Attempts = int(n)
	case "failures":
		w.Failures = int(n)
	case "v":
		w.V = &n
	case "version":
		w.Version = n
	default:
		return false
	}
	return true
}

// wholeNumber reads a number of at most nine digits; longer ones are rare.
func wholeNumber(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 9 || b[0] == '0' && len(b) > 1 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, true
}

// isDecimal reports whether b is a JSON number without sign and exponent.
func isDecimal(b []byte) bool {
	digits, point := 0, -1
	for i, c := range b {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c == '.' && point < 0 && i > 0:
			point = i
		default:
			return false
		}
	}
	whole := b
	if point >= 0 {
		whole = b[:point]
	}
	return digits > 0 && point != len(b)-1 && (len(whole) == 1 || whole[0] != '0')
}

// lineScanner goes along a line.
type lineScanner struct {
	b []byte
	i int
}

func (s *lineScanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\r' || s.b[s.i] == '\n') {
		s.i++
	}
}

// peek returns the byte that is next, 0 at the end.
func (s *lineScanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// take skips space and then c, and reports whether c was there.
func (s *lineScanner) take(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// text reads a string of printable ASCII without escapes.
func (s *lineScanner) text() (value []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	for start := s.i; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], true
		case c < ' ' || c == '\\' || c >= 0x7f:
			return nil, false
		}
	}
	return nil, false
}

// word reads up to what ends a number or a flag.
func (s *lineScanner) word() []byte {
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', '}', ' ', '\t', '\r', '\n':
			return s.b[start:s.i]
		}
		s.i++
	}
	return s.b[start:s.i]
}

// object reads an object up to the brace that ends it, if it is valid JSON.
func (s *lineScanner) object() (value []byte, ok bool) {
	start, depth, quoted := s.i, 0, false
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\' && quoted:
			s.i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				s.i++
				value = s.b[start:s.i]
				return value, json.Valid(value)
			}
		}
	}
	return nil, false
}
