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

func TestCodesAreReadBeforeStatuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		body    string
		outcome fusebox.Outcome
		class   fusebox.Class
		owner   owner
	}{
		{"OpenAI, a bad key", 401, `{"error":{"message":"x","type":"invalid_request_error","code":"invalid_api_key"}}`, fusebox.Failure, fusebox.ClassAuth, ofCredential},
		{"Gemini, a bad key", 400, `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}]`, fusebox.Failure, fusebox.ClassAuth, ofCredential},
		{"Anthropic, a bad key", 401, `{"type":"error","error":{"type":"authentication_error","message":"x"}}`, fusebox.Failure, fusebox.ClassAuth, ofCredential},
		{"Anthropic, not for this model", 403, `{"type":"error","error":{"type":"permission_error","message":"x"}}`, fusebox.Failure, fusebox.ClassAuth, ofModel},
		{"a bare 403", 403, ``, fusebox.Failure, fusebox.ClassAuth, ofCredential},
		{"OpenAI, quota", 429, `{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}`, fusebox.Throttled, "", ofCredential},
		{"OpenAI, quota by type alone", 429, `{"error":{"type":"insufficient_quota","code":null}}`, fusebox.Throttled, "", ofCredential},
		{"Anthropic, credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, fusebox.Throttled, "", ofCredential},
		{"Anthropic, spend limit", 429, `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`, fusebox.Throttled, "", ofCredential},
		{"OpenRouter, credits", 402, `{"error":{"code":402,"message":"x"}}`, fusebox.Throttled, "", ofCredential},
		{"OpenRouter, 429 under 200", 200, `{"error":{"code":429,"message":"x"}}`, fusebox.Throttled, "", ofModel},
		{"OpenAI, slow down", 503, `{"error":{"code":"slow_down"}}`, fusebox.Throttled, "", ofModel},
		{"Vertex, a bare 429", 429, ``, fusebox.Throttled, "", ofModel},
		{"Anthropic, overloaded", 529, `{"type":"error","error":{"type":"overloaded_error"}}`, fusebox.Failure, fusebox.ClassOverloaded, ofModel},
		{"Ollama, queue full", 503, `{"error":"server busy"}`, fusebox.Failure, fusebox.ClassOverloaded, ofModel},
		{"a gateway's 504", 504, `<html>`, fusebox.Failure, fusebox.ClassTimeout, ofModel},
		{"a bare 500", 500, ``, fusebox.Failure, fusebox.ClassServer, ofModel},
		{"a bare 502", 502, `<html>`, fusebox.Failure, fusebox.ClassServer, ofModel},
		{"in a stream, nothing said", 0, `{"error":{"message":"x"}}`, fusebox.Failure, fusebox.ClassServer, ofModel},
		{"context too long", 400, `{"error":{"code":"context_length_exceeded"}}`, fusebox.Rejected, "", ofModel},
		{"a bare 422", 422, ``, fusebox.Rejected, "", ofModel},
		{"OpenAI, no such model", 404, `{"error":{"message":"x","type":"invalid_request_error","code":"model_not_found"}}`, fusebox.Rejected, "", ofModel},
		{"Ollama, no such model", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, fusebox.Rejected, "", ofModel},
		{"a redirect", 307, ``, fusebox.Rejected, "", ofModel},
	} {
		v := judge(c.status, nil, []byte(c.body), epoch)
		if v.result.Outcome != c.outcome || v.result.Class != c.class || v.owner != c.owner {
			t.Errorf("%s: %v, class %q, owner %d", c.name, v.result.Outcome, v.result.Class, v.owner)
		}
	}
}
