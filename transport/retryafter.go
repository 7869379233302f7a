package transport

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// retryAfter reads when a response asks to be called again: seconds (a fraction
// too) or an HTTP date in Retry-After, or milliseconds in the headers that some
// providers send beside it. It reports false where there is none, or nonsense.
func retryAfter(h http.Header) (time.Time, bool) {
	now := time.Now()
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if wait, ok := parseWait(h.Get(name), time.Millisecond); ok {
			return now.Add(wait), true
		}
	}
	value := h.Get("Retry-After")
	if wait, ok := parseWait(value, time.Second); ok {
		return now.Add(wait), true
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return time.Time{}, false
	}
	// The date is by the server's clock; so is Date, which takes ours out of it.
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		until = now.Add(until.Sub(sent))
	}
	if !until.After(now) {
		return time.Time{}, false
	}
	return until, true
}

func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n <= 0 {
		return 0, false
	}
	if longest := fusebox.MaxThrottle; n > float64(longest/unit) {
		return longest, true
	}
	return time.Duration(n * float64(unit)), true
}
