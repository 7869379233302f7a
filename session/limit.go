package session

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultLimit matches what agents' command lines say when a subscription is
// used up: "usage limit reached", "hit your limit", "quota exceeded", "too many
// requests", "rate limited".
const DefaultLimit = `(?i)(usage|rate|session|weekly|daily|hourly|5-hour|request|token)[ -]?limit(s)?( has been| was| is)? (reached|exceeded|hit)|` +
	`(reached|hit|exceeded) (your|the) ([a-z0-9-]+ )*limit|limit reached|quota (has been )?(exceeded|exhausted|reached)|too many requests|rate[ -]limited`

// Limit finds a usage limit in what a process prints last.
type Limit struct{ patterns []*regexp.Regexp }

// NewLimit compiles the patterns; "default" stands for [DefaultLimit]. Without
// patterns it finds nothing.
func NewLimit(patterns ...string) (*Limit, error) {
	l := &Limit{}
	for _, p := range patterns {
		if p == "default" {
			p = DefaultLimit
		}
		re, err := regexp.Compile(p)
		if err != nil {
			return nil, fmt.Errorf("limit pattern %q: %w", p, err)
		}
		l.patterns = append(l.patterns, re)
	}
	return l, nil
}

// Active reports whether there is anything to look for.
func (l *Limit) Active() bool { return l != nil && len(l.patterns) > 0 }

// Find looks for a limit in text and returns the matching line, and the time
// that stands at it: zero where it names none. now is the local time that clock
// times such as "7pm" are taken in, where they have no zone of their own.
func (l *Limit) Find(text string, now time.Time) (line string, until time.Time, found bool) {
	for _, re := range l.patterns {
		all := re.FindAllStringIndex(text, -1)
		if len(all) == 0 {
			continue
		}
		at := all[len(all)-1] // the last word counts
		begin := strings.LastIndexByte(text[:at[0]], '\n') + 1
		rest := text[begin:]
		line, _, _ = strings.Cut(rest, "\n")
		until, ok := ResetTime(rest[at[0]-begin:], now)
		if !ok {
			until, _ = ResetTime(line, now)
		}
		return strings.TrimSpace(line), until, true
	}
	return "", time.Time{}, false
}

// near is how far behind the words of a limit its time may stand, in bytes.
const near = 300

var (
	epochTime    = regexp.MustCompile(`(?:^|[^\d.])(1[0-9]{9}|1[0-9]{12})(?:[^\d.]|$)`)
	stampTime    = regexp.MustCompile(`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?`)
	relativeTime = regexp.MustCompile(`(?i)\b(?:in|after|for|within|wait)[: ]+(?:about |approximately |another )?((?:\d+[dhms])+\b|(?:\d+(?:\.\d+)?\s*(?:d|days?|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?)\b[, ]*(?:and )?)+)`)
	relativePart = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?)\s*([dhms])`)
	clockTime    = regexp.MustCompile(`(?i)(?:\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (?:at )?)?\b(\d{1,2})(?::(\d{2}))?\s*([ap]\.?m\b\.?)?(?:\s*\(?([A-Za-z]+/[A-Za-z_+\-0-9/]+|UTC|GMT|EST|EDT|CST|CDT|MST|MDT|PST|PDT|CET|CEST|BST)\b\)?)?`)
)

// ResetTime finds the time that a limit's text names: epoch seconds or
// milliseconds, a date and time, "in 2 hours 15 minutes", or the next "7pm",
// "19:00", "7:30 pm (Europe/Berlin)", "Dec 3 at 9am" there is.
func ResetTime(text string, now time.Time) (time.Time, bool) {
	if len(text) > near {
		text = text[:near]
	}
	for _, parse := range []func(string, time.Time) (time.Time, bool){epoch, stamp, relative, clock} {
		if t, ok := parse(text, now); ok {
			return t, true
		}
	}
	return time.Time{}, false
}

func epoch(text string, _ time.Time) (time.Time, bool) {
	m := epochTime.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if len(m[1]) > 10 {
		return time.UnixMilli(n), true
	}
	return time.Unix(n, 0), true
}

func stamp(text string, now time.Time) (time.Time, bool) {
	s := stampTime.FindString(text)
	if s == "" {
		return time.Time{}, false
	}
	s = strings.Replace(s, " UTC", "Z", 1)
	s = strings.Replace(strings.Replace(s, " ", "T", 1), " ", "", 1)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

func relative(text string, now time.Time) (time.Time, bool) {
	m := relativeTime.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}, false
	}
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	var sum time.Duration
	for _, part := range relativePart.FindAllStringSubmatch(m[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 10_000_000 {
			return time.Time{}, false
		}
		sum += time.Duration(n * float64(units[strings.ToLower(part[2])]))
	}
	return now.Add(sum), true
}

// zones are the abbreviations that such texts use, with their offsets in hours.
var zones = map[string]int{"UTC": 0, "GMT": 0, "BST": 1, "CET": 1, "CEST": 2, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5,
	"MST": -7, "MDT": -6, "PST": -8, "PDT": -7}

func clock(text string, now time.Time) (time.Time, bool) {
	for _, m := range clockTime.FindAllStringSubmatch(text, -1) {
		month, day, half, minute, suffix, zone := m[1], m[2], m[3], m[4], m[5], m[6]
		if minute == "" && suffix == "" {
			continue // a bare number is no time
		}
		at, ok := wallClock(half, minute, suffix)
		if !ok {
			continue
		}
		in := now.In(location(zone, now.Location()))
		date := time.Date(in.Year(), in.Month(), in.Day(), at.Hour(), at.Minute(), 0, 0, in.Location())
		if month == "" {
			if !date.After(now) {
				date = time.Date(in.Year(), in.Month(), in.Day()+1, at.Hour(), at.Minute(), 0, 0, in.Location())
			}
			return date, true
		}
		named, err := time.Parse("Jan 2", strings.ToUpper(month[:1])+strings.ToLower(month[1:3])+" "+day)
		if err != nil {
			continue
		}
		date = time.Date(in.Year(), named.Month(), named.Day(), at.Hour(), at.Minute(), 0, 0, in.Location())
		if date.Before(now.AddDate(0, -6, 0)) { // January, said in December
			date = date.AddDate(1, 0, 0)
		}
		return date, true
	}
	return time.Time{}, false
}

func wallClock(hour, minute, suffix string) (time.Time, bool) {
	if minute == "" {
		minute = "00"
	}
	layout, s := "15:04", hour+":"+minute
	if suffix != "" {
		layout, s = "3:04pm", s+strings.ToLower(suffix[:1])+"m"
	}
	t, err := time.Parse(layout, s)
	return t, err == nil
}

func location(zone string, local *time.Location) *time.Location {
	if zone == "" {
		return local
	}
	if hours, known := zones[strings.ToUpper(zone)]; known {
		return time.FixedZone(strings.ToUpper(zone), hours*3600)
	}
	if l, err := time.LoadLocation(zone); err == nil {
		return l
	}
	return local
}

// tailSize is how much of the output's end is searched for a limit, in bytes.
const tailSize = 16 << 10

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > tailSize {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.buf[max(len(t.buf)-tailSize, 0):], nil))
}
