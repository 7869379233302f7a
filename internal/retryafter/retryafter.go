// Package retryafter reads from a response's header when its sender wants to be
// asked again, in every form in which providers say so: for all fronts that
// call something over HTTP.
package retryafter

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Of returns when a response asks to be called again by its Retry-After, or by
// the headers with milliseconds that some providers send beside it, which are
// more exact. Zero = it does not say, or not sensibly: what is past or nonsense
// is nothing said, what lies further away than [fusebox.MaxThrottle] is capped.
func Of(h http.Header, now time.Time) time.Time {
	c := newClock(h, now)
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if t := c.read(h.Get(name), time.Millisecond); !t.IsZero() {
			return t
		}
	}
	return c.read(h.Get("Retry-After"), time.Second)
}

// limits are the headers that say what is left of a limit, and when it begins
// anew.
var limits = []struct{ remaining, reset string }{
	{"Ratelimit-Remaining", "Ratelimit-Reset"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// Spent returns when the limits begin anew that a throttled response says are
// used up, the latest of them; zero = it names none. The rest is as with [Of].
func Spent(h http.Header, now time.Time) (until time.Time) {
	c := newClock(h, now)
	for _, l := range limits {
		if h.Get(l.remaining) == "0" {
			until = Latest(until, c.read(h.Get(l.reset), time.Second))
		}
	}
	if h.Get("Anthropic-Ratelimit-Unified-Status") != "allowed" {
		until = Latest(until, c.read(h.Get("Anthropic-Ratelimit-Unified-Reset"), time.Second))
	}
	return until
}

// Latest returns the latest of some times.
func Latest(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}

// clock reads times as their sender means them.
type clock struct {
	now   time.Time
	ahead time.Duration // of the sender's clock, by the date of its response
}

func newClock(h http.Header, now time.Time) clock {
	c := clock{now: now}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		c.ahead = sent.Sub(now)
	}
	return c
}

// read reads a time to come: a number of units from now, a duration such as
// 6m0s, an HTTP date, RFC 3339, or an epoch in seconds or milliseconds.
func (c clock) read(text string, unit time.Duration) time.Time {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return c.number(n, unit)
	}
	if d, err := time.ParseDuration(text); err == nil {
		return c.after(d)
	}
	if t, err := http.ParseTime(text); err == nil {
		return c.at(t)
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return c.at(t)
	}
	return time.Time{}
}

// aroundNow is how far from now a number is taken for an epoch: as a wait it
// would be one of decades.
const aroundNow = 366 * 24 * time.Hour

// number reads a number: an epoch if that is near, else a wait.
func (c clock) number(n float64, unit time.Duration) time.Time {
	for _, scale := range []time.Duration{time.Millisecond, time.Second} {
		if scale > unit {
			break // so many milliseconds are a matter of weeks
		}
		away := n*scale.Seconds() - float64(c.now.Unix())
		if math.Abs(away) < aroundNow.Seconds() {
			return c.at(time.UnixMilli(int64(n * float64(scale/time.Millisecond))))
		}
	}
	if math.IsNaN(n) || n <= 0 {
		return time.Time{}
	}
	return c.after(time.Duration(min(n*float64(unit), float64(fusebox.MaxThrottle))))
}

// at is a time by the sender's clock, by ours.
func (c clock) at(t time.Time) time.Time { return c.after(t.Sub(c.now) - c.ahead) }

func (c clock) after(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return c.now.Add(min(d, fusebox.MaxThrottle))
}
