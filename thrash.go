package fusebox

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Thrash says when a run is going in circles: repeating one exact call that
// fails, which no circuit can see because the dependency works.
//
// While all its counts and Forget are zero they stand for [DefaultThrash];
// otherwise each means what it says, zero too.
type Thrash struct {
	Repeats            int           // so often an exact call may fail; the next is refused. At least 2: some things fail once and heal
	SameError          int           // so many different calls of one tool may fail with the same error; the next is refused. 0 = no limit
	StopAfter          int           // refusals that a run may ignore, without a success in between, before it is stuck. 0 = no limit
	StuckAfterFailures int           // failures in a row, over all tools, that make a run stuck. 0 = no limit
	Struggling         int           // failures in a row that are reported as [NoticeStruggling]. 0 = never
	Forget             time.Duration // a failure that did not come back for so long no longer counts, and a stuck run is let go again

	Ignore []string // arguments that are noise, in every tool: see [SignatureOptions]; what identifies a call is in [Guard]
	Texts  *Texts   // what denials say; nil = the built-in texts
}

// DefaultThrash returns what is built in.
func DefaultThrash() Thrash {
	return Thrash{Repeats: 3, SameError: 6, StopAfter: 10, Struggling: 12, Forget: 10 * time.Minute}
}

func (h Thrash) orDefault() Thrash {
	if h.Repeats == 0 && h.SameError == 0 && h.StopAfter == 0 && h.StuckAfterFailures == 0 && h.Struggling == 0 && h.Forget == 0 {
		d := DefaultThrash()
		d.Ignore, d.Texts = h.Ignore, h.Texts
		return d
	}
	return h
}

// Validate returns every mistake in h, joined; each is a *[PolicyError].
func (h Thrash) Validate() error {
	h = h.orDefault()
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &PolicyError{Field: "thrash." + field, Want: fmt.Sprintf(format, args...)})
	}
	if h.Repeats < 2 || h.Repeats > maxThreshold {
		bad("repeats", "want 2 to %d (some things fail once and heal), have %d", maxThreshold, h.Repeats)
	}
	for _, n := range []struct {
		field string
		value int
	}{{"same_error", h.SameError}, {"stop_after", h.StopAfter}, {"stuck_after_failures", h.StuckAfterFailures}, {"struggling", h.Struggling}} {
		if n.value < 0 || n.value > maxThreshold {
			bad(n.field, "want 0 to %d, have %d", maxThreshold, n.value)
		}
	}
	if h.SameError == 1 {
		bad("same_error", "want 0, or at least 2, have 1")
	}
	if h.Forget <= 0 {
		bad("forget", "want a duration above 0, have %v", h.Forget)
	}
	return errors.Join(errs...)
}

// Bounds of what is remembered of one run. Only calls that fail are remembered.
const (
	maxMishaps  = 256 // exact calls
	maxTools    = 64
	maxSameness = 8 // errors of one tool
)

// history is what the calls of one run came to, as far as thrash needs it.
// The caller guards it with a lock.
//
// Order is told by moments, which are counted and not read from a clock: a
// call is a repeat of a failure only if it began at a moment when the caller
// could see that failure. What was in flight already is none.
type history struct {
	rules  *Thrash
	moment uint64
	calls  *lru[string, *mishap] // by signature
	tools  *lru[string, *toolHistory]
	inRow  mishap // failures over all tools since the last success
	denied int    // refusals since the last success
}

// mishap is something that failed, and how often.
type mishap struct {
	failures int
	seen     uint64    // moment from which on the caller could see the newest that counted
	at       time.Time // of the newest
	version  uint64    // of the circuit, then
	last     string    // error text
	denied   int       // refusals because of it
}

type toolHistory struct {
	works  bool // its last call did
	denied int  // refusals since its last success
	errors []sameError
}

// sameError is one error that different calls of a tool ended with.
type sameError struct {
	text string // normalised
	mishap
}

func newHistory(rules *Thrash) *history {
	return &history{rules: rules, calls: newLRU[string, *mishap](maxMishaps), tools: newLRU[string, *toolHistory](maxTools)}
}

// now begins a new moment.
func (h *history) now() uint64 {
	h.moment++
	return h.moment
}

func (h *history) tool(name string) *toolHistory {
	return h.tools.use(name, func() *toolHistory { return &toolHistory{} })
}

// counts reports whether m still counts at t. closed tells whether the tool's
// circuit has closed since the version and time given.
func (m *mishap) counts(rules *Thrash, t time.Time, closed func(uint64, time.Time) bool) bool {
	return m.failures > 0 && t.Sub(m.at) < rules.Forget && !closed(m.version, m.at)
}

// again counts a failure of a call that began at the moment start, if it is a
// repeat or the first, and reports whether it was counted.
func (m *mishap) again(start, moment uint64, t time.Time, version uint64, text string) bool {
	m.at = t
	if m.failures > 0 && start < m.seen {
		return false
	}
	m.failures++
	m.seen, m.version, m.last = moment, version, text
	return true
}

// check returns what stands against a call at t: the mishap, and under which
// text it is refused; nil if nothing does. It has no effects.
func (h *history) check(tool, call string, t time.Time, closed func(uint64, time.Time) bool) (m *mishap, script string) {
	if m, ok := h.calls.peek(call); ok && call != "" && m.failures >= h.rules.Repeats && m.counts(h.rules, t, closed) {
		return m, scriptThrash
	}
	th, ok := h.tools.peek(tool)
	if !ok || h.rules.SameError == 0 {
		return nil, ""
	}
	for i := range th.errors {
		if e := &th.errors[i]; e.failures >= h.rules.SameError && e.counts(h.rules, t, closed) {
			return &e.mishap, scriptSameError
		}
	}
	return nil, ""
}

// worked notes a success.
func (h *history) worked(tool, call string) {
	h.now()
	h.calls.drop(call)
	th := h.tool(tool)
	th.works, th.denied, th.errors = true, 0, nil
	h.inRow = mishap{}
	h.denied = 0
}

// failed notes a call that began at the moment start and failed at t, and
// returns the failures in a row over all tools.
func (h *history) failed(tool, call string, start uint64, t time.Time, version uint64, err error, closed func(uint64, time.Time) bool) int {
	moment := h.now()
	text := ErrorText(err)
	th := h.tool(tool)
	th.works = false
	news := true // of this exact call
	if call != "" {
		m := h.calls.use(call, func() *mishap { return &mishap{} })
		if !m.counts(h.rules, t, closed) {
			*m = mishap{}
		}
		news = m.again(start, moment, t, version, text) && m.failures == 1
	}
	if news {
		e := th.sameError(normalError(text))
		if !e.counts(h.rules, t, closed) {
			e.mishap = mishap{}
		}
		e.again(start, moment, t, version, text)
	}
	h.inRow.again(start, moment, t, version, text)
	return h.inRow.failures
}

// sameError returns the entry of an error, in place of the oldest if there are
// too many.
func (th *toolHistory) sameError(text string) *sameError {
	oldest := 0
	for i := range th.errors {
		if th.errors[i].text == text {
			return &th.errors[i]
		}
		if th.errors[i].at.Before(th.errors[oldest].at) {
			oldest = i
		}
	}
	if len(th.errors) < maxSameness {
		th.errors = append(th.errors, sameError{text: text})
		return &th.errors[len(th.errors)-1]
	}
	th.errors[oldest] = sameError{text: text}
	return &th.errors[oldest]
}

// refused notes a refusal and returns how many there were of this kind: of the
// mishap, or of the tool.
func (h *history) refused(tool string, m *mishap) (times int) {
	h.now()
	h.denied++
	th := h.tool(tool)
	th.denied++
	if m == nil {
		return th.denied
	}
	m.denied++
	return m.denied
}

// ignored reports whether the run has ignored too many refusals.
func (h *history) ignored() bool { return h.rules.StopAfter > 0 && h.denied >= h.rules.StopAfter }

// working names the tools whose last call worked, the newest first: besides one,
// and those that the refusing circuit stands before.
func (h *history) working(besides, refusing string) []string {
	var names []string
	h.tools.each(func(name string, th *toolHistory) bool {
		if name != besides && th.works && th.denied == 0 && !isOnServer(name, refusing) {
			names = append(names, toolName(name))
		}
		return len(names) < 5
	})
	return names
}

// isOnServer reports whether circuit is that of the server which a tool is on:
// server/NAME and tool/NAME/….
func isOnServer(tool, circuit string) bool {
	server, ok := strings.CutPrefix(circuit, "server/")
	return ok && strings.HasPrefix(tool, "tool/"+server+"/")
}

// givenUp reports whether a tool's last call failed.
func (h *history) givenUp() bool {
	found := false
	h.tools.each(func(_ string, th *toolHistory) bool {
		found = !th.works
		return !found
	})
	return found
}

// toolName is what the caller knows a circuit's dependency by: a tool's name
// goes without its kind.
func toolName(circuit string) string { return strings.TrimPrefix(circuit, "tool/") }

// normalError removes from an error's text what differs between two errors
// that are the same: numbers, times and ids, which is every word with a digit.
func normalError(text string) string {
	var b strings.Builder
	for text != "" {
		n := strings.IndexFunc(text, isWord)
		if n < 0 {
			n = len(text)
		}
		b.WriteString(text[:n])
		text = text[n:]
		if n = strings.IndexFunc(text, func(r rune) bool { return !isWord(r) }); n < 0 {
			n = len(text)
		}
		if word := text[:n]; strings.ContainsAny(word, "0123456789") {
			b.WriteByte('#')
		} else {
			b.WriteString(strings.ToLower(word))
		}
		text = text[n:]
	}
	return b.String()
}

// isWord reports whether r belongs to a number, a time or an id.
func isWord(r rune) bool {
	switch r {
	case '-', '_', ':', '.', '+':
		return true
	}
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80
}
