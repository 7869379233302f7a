package retryafter_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/internal/retryafter"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func date(from time.Duration) string { return now.Add(from).Format(http.TimeFormat) }

func epoch(from time.Duration) string { return strconv.FormatInt(now.Add(from).Unix(), 10) }

// said is a header, and how long it asks to wait; 0 = it does not say.
type said struct {
	name   string
	header http.Header
	want   time.Duration
}

func check(t *testing.T, read func(http.Header, time.Time) time.Time, all []said) {
	t.Helper()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			got, want := read(c.header, now), time.Time{}
			if c.want > 0 {
				want = now.Add(c.want)
			}
			if !got.Equal(want) {
				t.Errorf("%v; want %v", got, want)
			}
		})
	}
}

func TestOf(t *testing.T) {
	check(t, retryafter.Of, []said{
		{"seconds", header("Retry-After", "30"), 30 * time.Second},
		{"spaces around them", header("Retry-After", " 30 "), 30 * time.Second},
		{"a fraction", header("Retry-After", "0.25"), 250 * time.Millisecond},
		{"a duration", header("Retry-After", "6m0s"), 6 * time.Minute},
		{"a date", header("Retry-After", date(time.Minute)), time.Minute},
		{"a date by the sender's clock", header("Date", date(-time.Hour), "Retry-After", date(90*time.Second-time.Hour)), 90 * time.Second},
		{"RFC 3339", header("Retry-After", "2026-11-29T13:00:20+01:00"), 20 * time.Second},
		{"an epoch", header("Retry-After", epoch(time.Minute)), time.Minute},
		{"an epoch in milliseconds", header("Retry-After", epoch(time.Minute)+"500"), time.Minute + 500*time.Millisecond},
		{"an epoch by the sender's clock", header("Date", date(time.Hour), "Retry-After", epoch(time.Hour+time.Minute)), time.Minute},
		{"milliseconds", header("Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"milliseconds win", header("Retry-After-Ms", "1500", "Retry-After", "2"), 1500 * time.Millisecond},
		{"milliseconds that are nonsense do not", header("Retry-After-Ms", "soon", "Retry-After", "2"), 2 * time.Second},
		{"milliseconds of Azure", header("X-Ms-Retry-After-Ms", "700"), 700 * time.Millisecond},
		{"so many milliseconds are weeks, no epoch", header("Retry-After-Ms", epoch(time.Minute)), fusebox.MaxThrottle},
		{"absent", header(), 0},
		{"empty", header("Retry-After", ""), 0},
		{"zero", header("Retry-After", "0"), 0},
		{"negative", header("Retry-After", "-5"), 0},
		{"a negative duration", header("Retry-After", "-5s"), 0},
		{"a past date", header("Retry-After", date(-time.Minute)), 0},
		{"a past date by the sender's clock", header("Date", date(2*time.Hour), "Retry-After", date(time.Hour)), 0},
		{"a past epoch", header("Retry-After", epoch(-time.Minute)), 0},
		{"days", header("Retry-After", "900000"), fusebox.MaxThrottle},
		{"a date in years", header("Retry-After", now.AddDate(5, 0, 0).Format(http.TimeFormat)), fusebox.MaxThrottle},
		{"an epoch in years", header("Retry-After", "9999999999"), fusebox.MaxThrottle},
		{"huge", header("Retry-After", "1e300"), fusebox.MaxThrottle},
		{"too large to be a number", header("Retry-After", "1e999"), fusebox.MaxThrottle},
		{"infinite", header("Retry-After", "Inf"), fusebox.MaxThrottle},
		{"infinite, backwards", header("Retry-After", "-Inf"), 0},
		{"not a number", header("Retry-After", "NaN"), 0},
		{"nonsense", header("Retry-After", "soon"), 0},
	})
}

func TestSpent(t *testing.T) {
	check(t, retryafter.Spent, []said{
		{"requests", header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "6m0s"), 6 * time.Minute},
		{"tokens", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "12ms"), 12 * time.Millisecond},
		{"seconds", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "7.66"), 7660 * time.Millisecond},
		{"the later of two", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "12s",
			"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1m"), time.Minute},
		{"what is left does not matter", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "12s",
			"X-Ratelimit-Remaining-Requests", "3", "X-Ratelimit-Reset-Requests", "1m"), 12 * time.Second},
		{"nothing is spent", header("X-Ratelimit-Remaining-Tokens", "5", "X-Ratelimit-Reset-Tokens", "9s"), 0},
		{"OpenRouter, an epoch in milliseconds", header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", epoch(20*time.Second)+"000"), 20 * time.Second},
		{"the standard to be, in seconds", header("Ratelimit-Remaining", "0", "Ratelimit-Reset", "50"), 50 * time.Second},
		{"Azure says nothing", header("X-Ratelimit-Remaining-Tokens", "-1", "X-Ratelimit-Reset-Tokens", "0"), 0},
		{"Azure says nothing, otherwise", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "-1"), 0},
		{"Anthropic", header("Anthropic-Ratelimit-Input-Tokens-Remaining", "0",
			"Anthropic-Ratelimit-Input-Tokens-Reset", now.Add(40*time.Second).Format(time.RFC3339)), 40 * time.Second},
		{"Anthropic, unified", header("Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", epoch(30*time.Second)), 30 * time.Second},
		{"Anthropic, allowed", header("Anthropic-Ratelimit-Unified-Status", "allowed", "Anthropic-Ratelimit-Unified-Reset", epoch(30*time.Second)), 0},
		{"absurd", header("Anthropic-Ratelimit-Unified-Reset", "9223372036854775807"), fusebox.MaxThrottle},
		{"nonsense", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "later"), 0},
	})
}

// FuzzOf reads anything as every header: what comes of it is nothing, or a time
// to come within the longest throttle. A wait is read the same in every form.
func FuzzOf(f *testing.F) {
	for _, text := range []string{"30", "0.25", "6m0s", "-1", "NaN", "1e999", "1795953630", "1795953630000", "2026-11-29T13:00:20+01:00",
		"Sun, 29 Nov 2026 12:01:00 GMT", "soon", ""} {
		f.Add(text, "Sun, 29 Nov 2026 11:00:00 GMT", uint32(90))
	}
	f.Fuzz(func(t *testing.T, text, sent string, seconds uint32) {
		h := http.Header{"Date": {sent}, "Retry-After": {text}, "Retry-After-Ms": {text},
			"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {text}, "Anthropic-Ratelimit-Unified-Reset": {text}}
		for _, got := range []time.Time{retryafter.Of(h, now), retryafter.Spent(h, now)} {
			if !got.IsZero() && (!got.After(now) || got.Sub(now) > fusebox.MaxThrottle) {
				t.Errorf("%q by the clock of %q: %v", text, sent, got)
			}
		}
		wait := time.Duration(seconds%(24*60*60)+1) * time.Second
		for _, form := range []string{strconv.Itoa(int(wait / time.Second)), wait.String(), date(wait), now.Add(wait).Format(time.RFC3339), epoch(wait), epoch(wait) + "000"} {
			if got := retryafter.Of(header("Retry-After", form), now); !got.Equal(now.Add(wait)) {
				t.Errorf("%q is %v; want a wait of %v", form, got, wait)
			}
		}
	})
}
