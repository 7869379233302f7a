package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// seen is one way in which a backend does not answer.
type seen struct {
	from   string // who is known for it
	answer string // as the document says it
	status int    // 0 = inside a stream
	header http.Header
	body   string
	err    error // instead of an answer
	began  bool  // an answer had begun
}

// want is what it means, in the document's words.
type want struct{ outcome, of, then string }

const (
	toClient  = "the client has it"
	nobody    = "nobody"
	nextOne   = "next"
	onceMore  = "again, then next"
	ofTheKey  = "key"
	ofBackend = "model"
)

var dialError = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// table is the classification: one row of docs/gateway.md each.
var table = []struct {
	seen
	want
}{
	{seen{from: "OpenAI", answer: "401 `invalid_api_key`", status: 401, body: `{"error":{"message":"x","type":"invalid_request_error","code":"invalid_api_key"}}`}, want{"failure, auth", ofTheKey, nextOne}},
	{seen{from: "Anthropic", answer: "401 `authentication_error`", status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"x"}}`}, want{"failure, auth", ofTheKey, nextOne}},
	{seen{from: "Gemini", answer: "400 with the reason `API_KEY_INVALID`", status: 400, body: `[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}]`}, want{"failure, auth", ofTheKey, nextOne}},
	{seen{from: "any", answer: "a bare 401 or 403", status: 403}, want{"failure, auth", ofTheKey, nextOne}},
	{seen{from: "Anthropic", answer: "403 `permission_error`", status: 403, body: `{"type":"error","error":{"type":"permission_error","message":"x"}}`}, want{"failure, auth", ofBackend, nextOne}},

	{seen{from: "OpenAI", answer: "429 `insufficient_quota`, with whatever code", status: 429, body: `{"error":{"type":"insufficient_quota","code":null}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "OpenAI", answer: "429 `credit_balance_exhausted`", status: 429, body: `{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "OpenAI", answer: "429 `organization_spend_limit_exceeded`", status: 429, body: `{"error":{"code":"organization_spend_limit_exceeded"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "OpenAI", answer: "429 `project_spend_limit_exceeded`", status: 429, body: `{"error":{"code":"project_spend_limit_exceeded"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "OpenAI", answer: "429 `organization_usage_limit_exceeded`", status: 429, body: `{"error":{"code":"organization_usage_limit_exceeded"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "Anthropic", answer: "400, the credit balance is too low", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "Anthropic", answer: "402 `billing_error`", status: 402, body: `{"type":"error","error":{"type":"billing_error"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "Anthropic", answer: "429 `enforced_spend_limit_reached`", status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},
	{seen{from: "OpenRouter", answer: "402", status: 402, body: `{"error":{"code":402,"message":"x"}}`}, want{"throttled 1h0m0s", ofTheKey, nextOne}},

	{seen{from: "OpenAI", answer: "429 `rate_limit_exceeded`, Retry-After: 20", status: 429, header: header("Retry-After", "20"), body: `{"error":{"code":"rate_limit_exceeded"}}`}, want{"throttled 20s", ofBackend, nextOne}},
	{seen{from: "OpenAI", answer: "503 `slow_down`", status: 503, body: `{"error":{"code":"slow_down"}}`}, want{"throttled", ofBackend, nextOne}},
	{seen{from: "OpenAI", answer: "429, a limit spent that resets in 6m0s", status: 429, header: header("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "6m0s")}, want{"throttled 6m0s", ofBackend, nextOne}},
	{seen{from: "Anthropic", answer: "429 `rate_limit_error`, Retry-After: 7", status: 429, header: header("Retry-After", "7"), body: `{"type":"error","error":{"type":"rate_limit_error"}}`}, want{"throttled 7s", ofBackend, nextOne}},
	{seen{from: "Azure", answer: "429, x-ratelimit of -1, retry-after-ms: 1500", status: 429, header: header("X-Ratelimit-Remaining-Tokens", "-1", "Retry-After-Ms", "1500")}, want{"throttled 1.5s", ofBackend, nextOne}},
	{seen{from: "Vertex", answer: "429 without a header", status: 429}, want{"throttled", ofBackend, nextOne}},
	{seen{from: "Gemini", answer: "429 `RESOURCE_EXHAUSTED`, retryDelay: 30s", status: 429, body: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"30s"}]}}`}, want{"throttled 30s", ofBackend, nextOne}},
	{seen{from: "OpenRouter", answer: "200 with the code 429 inside", status: 200, body: `{"error":{"code":429,"message":"x"}}`}, want{"throttled", ofBackend, nextOne}},

	{seen{from: "OpenAI", answer: "404 or 403 `model_not_found`", status: 403, body: `{"error":{"code":"model_not_found"}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "Ollama", answer: "404 of type `api_error`", status: 404, body: `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "Anthropic", answer: "404 `not_found_error`", status: 404, body: `{"type":"error","error":{"type":"not_found_error"}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "OpenAI", answer: "400 `context_length_exceeded`", status: 400, body: `{"error":{"code":"context_length_exceeded"}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "Anthropic", answer: "400, the prompt is too long", status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "vLLM, OpenRouter", answer: "400, beyond the maximum context length", status: 400, body: `{"error":{"message":"This model's maximum context length is 8 tokens.","code":400}}`}, want{"rejected", ofBackend, nextOne}},
	{seen{from: "OpenAI, Azure", answer: "400 `content_policy_violation`, `content_filter`", status: 400, body: `{"error":{"code":"content_filter"}}`}, want{"rejected", ofBackend, toClient}},
	{seen{from: "any", answer: "400, 409, 413, 422 and other 4xx", status: 422}, want{"rejected", ofBackend, toClient}},
	{seen{from: "any", answer: "a redirect", status: 307}, want{"rejected", ofBackend, toClient}},

	{seen{from: "any", answer: "500, 502 and other 5xx", status: 502, body: `<html>`}, want{"failure, server", ofBackend, onceMore}},
	{seen{from: "Anthropic", answer: "500 `api_error`", status: 500, body: `{"type":"error","error":{"type":"api_error"}}`}, want{"failure, server", ofBackend, onceMore}},
	{seen{from: "any", answer: "5xx with x-should-retry: false", status: 500, header: header("X-Should-Retry", "false")}, want{"failure, server", ofBackend, nextOne}},
	{seen{from: "any", answer: "503 with Retry-After: 9", status: 503, header: header("Retry-After", "9")}, want{"failure, overloaded; throttled 9s", ofBackend, nextOne}},
	{seen{from: "Ollama", answer: "503, its queue is full", status: 503, body: `{"error":"server busy"}`}, want{"failure, overloaded", ofBackend, onceMore}},
	{seen{from: "Anthropic", answer: "529 `overloaded_error`", status: 529, body: `{"type":"error","error":{"type":"overloaded_error"}}`}, want{"failure, overloaded", ofBackend, onceMore}},
	{seen{from: "Anthropic", answer: "504 `timeout_error`", status: 504, body: `{"type":"error","error":{"type":"timeout_error"}}`}, want{"failure, timeout", ofBackend, nextOne}},
	{seen{from: "any", answer: "408, 504", status: 408}, want{"failure, timeout", ofBackend, nextOne}},

	{seen{from: "OpenAI", answer: "in a stream: `server_error`, or nothing said", body: `{"error":{"message":"x"}}`}, want{"failure, server", ofBackend, onceMore}},
	{seen{from: "OpenAI", answer: "in a stream: response.failed, `rate_limit_exceeded`", body: `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}`}, want{"throttled", ofBackend, nextOne}},
	{seen{from: "Anthropic", answer: "in a stream: `overloaded_error`", body: `{"type":"error","error":{"type":"overloaded_error"}}`}, want{"failure, overloaded", ofBackend, onceMore}},
	{seen{from: "OpenRouter", answer: "in a stream: the code 502", body: `{"error":{"code":502,"message":"x"}}`}, want{"failure, server", ofBackend, onceMore}},

	{seen{from: "network", answer: "refused, unreachable, no such host", err: dialError}, want{"failure, connect", ofBackend, onceMore}},
	{seen{from: "network", answer: "a certificate that does not verify", err: &tls.CertificateVerificationError{Err: x509.HostnameError{Host: "x", Certificate: &x509.Certificate{}}}}, want{"failure, connect", ofBackend, onceMore}},
	{seen{from: "network", answer: "reset, or closed before a header", err: io.ErrUnexpectedEOF}, want{"failure, reset", ofBackend, onceMore}},
	{seen{from: "network", answer: "broken within the answer", err: io.ErrUnexpectedEOF, began: true}, want{"failure, stream", ofBackend, onceMore}},
	{seen{from: "limits", answer: "`connect`", err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}, want{"failure, timeout", ofBackend, nextOne}},
	{seen{from: "limits", answer: "`headers`, `first_token`, `total`", err: &limitError{theFirstToken, time.Second}}, want{"failure, timeout", ofBackend, nextOne}},
	{seen{from: "limits", answer: "`idle`", err: &limitError{theNextToken, time.Second}, began: true}, want{"failure, stall", ofBackend, nextOne}},
	{seen{from: "client", answer: "went away", err: context.Canceled}, want{"canceled", ofBackend, nobody}},
}

func (s *seen) verdict() verdict {
	if s.err == nil {
		return judge(s.status, s.header, []byte(s.body), epoch)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	client, leave := context.WithCancel(context.Background())
	defer leave()
	switch {
	case errors.Is(s.err, context.Canceled):
		leave()
	case errors.As(s.err, new(*limitError)):
		cancel(s.err)
	}
	return judgeError(ctx, client, s.err, s.began)
}

// said is the verdict in the document's words, under the default of next_on.
func (v *verdict) said() want {
	w := want{outcome: v.result.Outcome.String(), of: ofBackend, then: nextOne}
	if v.result.Class != "" {
		w.outcome += ", " + string(v.result.Class)
	}
	if until := v.result.NotBefore; !until.IsZero() {
		if v.result.Outcome != fusebox.Throttled {
			w.outcome += "; throttled"
		}
		w.outcome += " " + until.Sub(epoch).String()
	}
	if v.owner == ofCredential {
		w.of = ofTheKey
	}
	switch {
	case v.repeatable():
		w.then = onceMore
	case v.result.Outcome == fusebox.Canceled:
		w.then = nobody
	case v.result.Outcome == fusebox.Rejected && !v.next && !v.isNamed([]string{contextTooLong}):
		w.then = toClient
	}
	return w
}

func TestEachAnswerMeansWhatTheTableSays(t *testing.T) {
	for _, row := range table {
		t.Run(row.from+" "+row.answer, func(t *testing.T) {
			v := row.verdict()
			if got := v.said(); got != row.want {
				t.Errorf("%+v, want %+v", got, row.want)
			}
		})
	}
}

// The document's table is this one.
func TestTheTableIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range table {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.from, r.answer, r.outcome, r.of, r.then))
	}
	_, after, _ := strings.Cut(string(text), "| from | answer | outcome | of | then |\n| --- | --- | --- | --- | --- |\n")
	documented := slices.Collect(strings.Lines(after))
	if len(documented) < len(rows) || !slices.Equal(documented[:len(rows)], rows) || strings.HasPrefix(documented[len(rows)], "|") {
		t.Errorf("the table in docs/gateway.md should be\n%s", strings.Join(rows, ""))
	}
}
