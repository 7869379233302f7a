package replay

import (
	"math"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// record is what replay needs of one line of evidence.
type record struct {
	at, since int64 // nanoseconds since the epoch; since is 0 where there is none
	elapsed   time.Duration
	n         int64
	exact     uint64
	circuit   []byte // as spelled
	outcome   fusebox.Outcome
	class     uint8
	mark      mark
}

// scanner reads lines of the log faster than fusebox.ParseEvent, because it
// allocates nothing and makes nothing of what replay does not need: above all
// not of the state that each line of a store's log carries. It is sure of the
// lines that programs write; of all others it says so, and ParseEvent has the
// word. Where it is sure the two agree, but that it does not look into a state.
type scanner struct {
	b []byte
	i int

	date  [10]byte // the day that was read last
	start int64    // of that day, nanoseconds since the epoch
}

// scan reads a line of evidence into r. What r refers to is part of the line.
func (s *scanner) scan(line []byte, r *record) (sure bool) {
	*r = record{n: 1}
	s.b, s.i = line, 0
	var run, exact []byte
	var at, outcome bool
	s.space()
	if !s.take('{') {
		return false
	}
	for first := true; ; first = false {
		s.space()
		if first && s.take('}') {
			break
		}
		key, ok := s.plainKey()
		if !ok {
			return false
		}
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		switch string(key) {
		case "at":
			r.at, ok = s.time()
			at = true
		case "since":
			r.since, ok = s.time()
		case "circuit":
			r.circuit, ok = s.plain()
		case "outcome":
			var text []byte
			if text, ok = s.plain(); ok {
				r.outcome, ok = outcomeOf(text)
			}
			outcome = true
		case "class":
			var text []byte
			if text, ok = s.plain(); ok {
				r.class = classOf(text)
			}
		case "ms":
			r.elapsed, ok = s.milliseconds()
		case "n":
			r.n, ok = s.natural()
			r.n = max(r.n, 1)
		case "run":
			run, ok = s.plain()
		case "call":
			exact, ok = s.plain()
		case "worker", "error", "lease", "reason", "cause", "action":
			ok = s.text()
		case "attempts", "v", "version", "failures":
			_, ok = s.natural()
		case "late":
			ok = s.flag(&r.mark, late)
		case "overdue":
			ok = s.flag(&r.mark, overdue)
		case "pick", "last_resort", "observed":
			ok = s.word("true") || s.word("false")
		case "kind", "until", "from", "to":
			ok = false
		default:
			ok = s.value(0)
		}
		if !ok {
			return false
		}
		s.space()
		if s.take(',') {
			continue
		}
		if !s.take('}') {
			return false
		}
		break
	}
	s.space()
	r.exact = exactOf(run, exact)
	return at && outcome && s.i == len(s.b)
}

// recordOf is what scan reads, from an event that ParseEvent has read.
func recordOf(e *fusebox.Event) record {
	r := record{
		at: e.At.UnixNano(), elapsed: e.Elapsed, n: max(int64(e.N), 1), outcome: e.Outcome,
		class: classOf([]byte(e.Class)), circuit: []byte(e.Circuit), exact: exactOf([]byte(e.Run), []byte(e.Call)),
	}
	if !e.Since.IsZero() {
		r.since = e.Since.UnixNano()
	}
	if e.Late {
		r.mark |= late
	}
	if e.Overdue {
		r.mark |= overdue
	}
	return r
}

func outcomeOf(b []byte) (fusebox.Outcome, bool) {
	for o := fusebox.Success; o <= fusebox.Canceled; o++ {
		if string(b) == o.String() {
			return o, true
		}
	}
	return 0, false
}

func classOf(b []byte) uint8 {
	for i, c := range fusebox.Classes {
		if string(b) == string(c) {
			return uint8(i + 1)
		}
	}
	return 0
}

// exactOf is the identity of an exact call within its run (FNV-1a); 0 without a call.
func exactOf(run, exact []byte) uint64 {
	if len(exact) == 0 {
		return 0
	}
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, b := range run {
		h = (h ^ uint64(b)) * prime
	}
	h *= prime // a zero byte between the two
	for _, b := range exact {
		h = (h ^ uint64(b)) * prime
	}
	return max(h, 1)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i >= len(w) && string(s.b[s.i:s.i+len(w)]) == w {
		s.i += len(w)
		return true
	}
	return false
}

// flag reads a truth value.
func (s *scanner) flag(to *mark, m mark) bool {
	*to &^= m
	if s.word("true") {
		*to |= m
		return true
	}
	return s.word("false")
}

// plain reads a string of ASCII without escapes.
func (s *scanner) plain() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	from := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c == '"' {
			s.i++
			return s.b[from : s.i-1], true
		}
		if c < ' ' || c == '\\' || c >= 0x80 {
			return nil, false
		}
		s.i++
	}
	return nil, false
}

// plainKey reads a key that matches no other than itself: ParseEvent folds case.
func (s *scanner) plainKey() ([]byte, bool) {
	key, ok := s.plain()
	for _, c := range key {
		if 'A' <= c && c <= 'Z' {
			return nil, false
		}
	}
	return key, ok
}

// text skips any string.
func (s *scanner) text() bool {
	if !s.take('"') {
		return false
	}
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		}
	}
	return false
}

// escape skips what follows a backslash.
func (s *scanner) escape() bool {
	if s.i == len(s.b) {
		return false
	}
	c := s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if s.i == len(s.b) || !isHex(s.b[s.i]) {
				return false
			}
			s.i++
		}
		return true
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number skips a number and returns it.
func (s *scanner) number() ([]byte, bool) {
	from := s.i
	s.take('-')
	if !s.take('0') && !s.digits() {
		return nil, false
	}
	if s.take('.') && !s.digits() {
		return nil, false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.b[from:s.i], true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// natural reads a whole number of at most 18 digits, without a sign.
func (s *scanner) natural() (int64, bool) {
	text, ok := s.number()
	if !ok || len(text) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// milliseconds reads a duration that is no longer than a year.
func (s *scanner) milliseconds() (time.Duration, bool) {
	text, ok := s.number()
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(0 <= ms && ms <= 365*24*3600*1000) {
		return 0, false
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))), true
}

// value skips any value of little depth.
func (s *scanner) value(depth int) bool {
	if s.i == len(s.b) || depth > 20 {
		return false
	}
	switch c := s.b[s.i]; {
	case c == '"':
		return s.text()
	case c == '{':
		s.i++
		return s.members(depth, '}', func() bool {
			if !s.text() {
				return false
			}
			s.space()
			if !s.take(':') {
				return false
			}
			s.space()
			return s.value(depth + 1)
		})
	case c == '[':
		s.i++
		return s.members(depth, ']', func() bool { return s.value(depth + 1) })
	case c == '-' || '0' <= c && c <= '9':
		_, ok := s.number()
		return ok
	}
	return s.word("true") || s.word("false") || s.word("null")
}

// members skips what stands between brackets, and the closing one.
func (s *scanner) members(depth int, closing byte, member func() bool) bool {
	s.space()
	if s.take(closing) {
		return true
	}
	for {
		s.space()
		if !member() {
			return false
		}
		s.space()
		if s.take(',') {
			continue
		}
		return s.take(closing)
	}
}

// time reads a UTC time with up to nine decimals: "2026-11-29T12:09:00.25Z".
func (s *scanner) time() (int64, bool) {
	b, ok := s.plain()
	if !ok || len(b) < len("2026-11-29T12:09:00Z") || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[len(b)-1] != 'Z' {
		return 0, false
	}
	if string(b[:10]) != string(s.date[:]) && !s.day(b[:10]) {
		return 0, false
	}
	hour, minute, second := pair(b[11:]), pair(b[14:]), pair(b[17:])
	if hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	fraction, ok := nanoseconds(b[19 : len(b)-1])
	return s.start + int64(hour*3600+minute*60+second)*1e9 + fraction, ok
}

func (s *scanner) day(date []byte) bool {
	t, err := time.Parse(time.DateOnly, string(date))
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return false
	}
	copy(s.date[:], date)
	s.start = t.UnixNano()
	return true
}

// pair is the number of two digits, and 100 if they are none.
func pair(b []byte) int {
	tens, ones := b[0]-'0', b[1]-'0'
	if tens > 9 || ones > 9 {
		return 100
	}
	return int(tens)*10 + int(ones)
}

// nanoseconds reads ".25", or nothing.
func nanoseconds(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' || len(b) < 2 || len(b) > 10 {
		return 0, false
	}
	var n int64
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	for range 10 - len(b) {
		n *= 10
	}
	return n, true
}
