package gateway

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// retryAfter reads from a response's headers when the backend wants to be asked
// again; zero = it did not say, or not sensibly. What lies further away than
// [fusebox.MaxThrottle] is capped.
func retryAfter(h http.Header, now time.Time) time.Time {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if t, ok := afterNumber(h.Get(name), time.Millisecond, now); ok {
			return t
		}
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if t, ok := afterNumber(value, time.Second, now); ok {
		return t
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return capped(t, now)
	}
	return time.Time{}
}

// afterNumber reads a positive number of units from now on.
func afterNumber(text string, unit time.Duration, now time.Time) (time.Time, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return time.Time{}, false
	}
	wait := min(n*float64(unit), float64(fusebox.MaxThrottle))
	return now.Add(time.Duration(wait)), true
}

func capped(t, now time.Time) time.Time {
	if latest := now.Add(fusebox.MaxThrottle); t.After(latest) {
		return latest
	}
	return t
}

// spentLimit reads, for a 429 that has no Retry-After, when the limits that are
// used up begin anew: the latest of them, zero if none is named.
func spentLimit(h http.Header, now time.Time) (until time.Time) {
	later := func(t time.Time) {
		if t.After(now) && t.After(until) {
			until = capped(t, now)
		}
	}
	for _, what := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+what) == "0" {
			if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + what)); err == nil {
				later(now.Add(min(d, fusebox.MaxThrottle)))
			}
		}
	}
	for _, what := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		if h.Get("Anthropic-Ratelimit-"+what+"-Remaining") == "0" {
			if t, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+what+"-Reset")); err == nil {
				later(t)
			}
		}
	}
	if h.Get("Anthropic-Ratelimit-Unified-Status") != "allowed" {
		if s, err := strconv.ParseInt(h.Get("Anthropic-Ratelimit-Unified-Reset"), 10, 64); err == nil {
			later(time.Unix(min(s, math.MaxInt32*4), 0))
		}
	}
	return until
}
