package gateway

import (
	"net/http"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// How long a backend is left alone is the latest of all that it says.
func TestTheLaterDeadlineWins(t *testing.T) {
	const slow = `{"error":{"type":"rate_limit_error","message":"slow"}}`
	const delayed = `{"error":{"status":"RESOURCE_EXHAUSTED","message":"slow","details":[{"retryDelay":"30s"}]}}`
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		body   string
		want   time.Duration // 0 = it does not say
	}{
		{"Retry-After alone", 429, header("Retry-After", "7"), slow, 7 * time.Second},
		{"a spent limit alone", 429, header("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s"), slow, 6 * time.Minute},
		{"a limit that lasts longer", 429, header("Retry-After", "7", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "20s"), slow, 20 * time.Second},
		{"a limit that ends before", 429, header("Retry-After", "7", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2s"), slow, 7 * time.Second},
		{"a limit that is not spent", 429, header("Retry-After", "7", "X-Ratelimit-Remaining-Tokens", "9", "X-Ratelimit-Reset-Tokens", "20s"), slow, 7 * time.Second},
		{"a delay in the body", 429, header("Retry-After", "7"), delayed, 30 * time.Second},
		{"a delay that is over before", 429, header("Retry-After", "40"), delayed, 40 * time.Second},
		{"nothing", 429, header(), slow, 0},
		{"a failure, whose limits are another matter", 503, header("Retry-After", "7", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "20s"), "{}", 7 * time.Second},
		{"a quota", 429, header("Retry-After", "7"), `{"error":{"code":"insufficient_quota"}}`, quotaBench},
		{"a quota that says more", 429, header("Retry-After", "7200"), `{"error":{"code":"insufficient_quota"}}`, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, want := judge(c.status, c.header, []byte(c.body), epoch), time.Time{}
			if c.want > 0 {
				want = epoch.Add(c.want)
			}
			if !v.result.NotBefore.Equal(want) {
				t.Errorf("left alone until %v, want %v", v.result.NotBefore, want)
			}
		})
	}
}
