package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const maxWait = fusebox.MaxThrottle

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestScenario7_RetryAfterInAllItsForms(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration // 0 = not said
	}{
		{"seconds", header("Retry-After", "30"), 30 * time.Second},
		{"a fraction", header("Retry-After", "0.25"), 250 * time.Millisecond},
		{"a date", header("Retry-After", epoch.Add(time.Minute).Format(http.TimeFormat)), time.Minute},
		{"milliseconds", header("Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"milliseconds win", header("Retry-After-Ms", "1500", "Retry-After", "2"), 1500 * time.Millisecond},
		{"milliseconds of Azure", header("X-Ms-Retry-After-Ms", "700"), 700 * time.Millisecond},
		{"absent", header(), 0},
		{"zero", header("Retry-After", "0"), 0},
		{"negative", header("Retry-After", "-5"), 0},
		{"past", header("Retry-After", epoch.Add(-time.Minute).Format(http.TimeFormat)), 0},
		{"huge", header("Retry-After", "1e300"), maxWait},
		{"infinite", header("Retry-After", "Inf"), maxWait},
		{"not a number", header("Retry-After", "NaN"), 0},
		{"nonsense", header("Retry-After", "soon"), 0},
		{"a date in years", header("Retry-After", epoch.AddDate(5, 0, 0).Format(http.TimeFormat)), maxWait},
	} {
		got := retryAfter(c.header, epoch)
		if want := epoch.Add(c.want); c.want == 0 && !got.IsZero() || c.want > 0 && !got.Equal(want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestA429WithoutRetryAfterIsReadFromItsLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"requests are spent", header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "6m0s"), 6 * time.Minute},
		{"tokens are spent", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "12ms"), 12 * time.Millisecond},
		{"nothing is spent", header("X-Ratelimit-Remaining-Tokens", "5", "X-Ratelimit-Reset-Tokens", "9s"), 0},
		{"Azure says nothing", header("X-Ratelimit-Remaining-Tokens", "-1", "X-Ratelimit-Reset-Tokens", "0"), 0},
		{"anthropic", header("Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", epoch.Add(40*time.Second).Format(time.RFC3339)), 40 * time.Second},
		{"anthropic, unified", header("Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", "1795953630"), 30 * time.Second},
		{"anthropic, allowed", header("Anthropic-Ratelimit-Unified-Status", "allowed", "Anthropic-Ratelimit-Unified-Reset", "1795953630"), 0},
		{"absurd", header("Anthropic-Ratelimit-Unified-Reset", "9223372036854775807"), maxWait},
		{"nonsense", header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "later"), 0},
	} {
		got := spentLimit(c.header, epoch)
		if want := epoch.Add(c.want); c.want == 0 && !got.IsZero() || c.want > 0 && !got.Equal(want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
