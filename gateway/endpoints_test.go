package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// Every path that names a model is guarded in the same way, whatever it answers.
func TestEveryModelCallIsGuarded(t *testing.T) {
	for _, c := range []struct {
		dialect            gateway.Dialect
		path, body, answer string
	}{
		{gateway.OpenAI, "/v1/chat/completions", plainChat, chatAnswer("from b")},
		{gateway.OpenAI, "/v1/completions", `{"model":"m","prompt":"hi"}`, `{"object":"text_completion","choices":[{"index":0,"text":"from b","finish_reason":"stop"}]}`},
		{gateway.OpenAI, "/v1/responses", `{"model":"m","input":"hi"}`, `{"object":"response","status":"completed","error":null,"output":[]}`},
		{gateway.OpenAI, "/v1/embeddings", `{"model":"m","input":["a","b"]}`, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25]}],"usage":{"prompt_tokens":1}}`},
		{gateway.Anthropic, "/v1/messages", plainMessage, `{"type":"message","role":"assistant","content":[{"type":"text","text":"from b"}],"stop_reason":"end_turn"}`},
		{gateway.Anthropic, "/v1/messages/count_tokens", `{"model":"m","messages":[]}`, `{"input_tokens":7}`},
	} {
		t.Run(c.path, func(t *testing.T) {
			a, b := newUpstream(t, "a", nil), newUpstream(t, "b", status(200, c.answer))
			first, second := a.backend(), b.backend()
			first.Dialect, second.Dialect, second.Models = c.dialect, c.dialect, map[string]string{"m": "m-of-b"}
			f := newFront(t, trips(9, time.Hour), gateway.Config{Backends: []gateway.Backend{first, second}})
			for name, does := range map[string]http.HandlerFunc{
				"a failure": status(500, tooBusy), "a reset": reset, "no JSON": status(200, "<html>"),
				"an error under a good status": status(200, `{"error":{"message":"fell over","type":"server_error","code":"server_error"}}`),
			} {
				a.does(does)
				got := f.post(t, c.path, c.body)
				got.wants(t, 200, "", "b", "degraded")
				if got.body != c.answer || b.last().path != c.path || b.last().body != strings.Replace(c.body, `"m"`, `"m-of-b"`, 1) {
					t.Errorf("%s: %s, after %s %s", name, got.body, b.last().path, b.last().body)
				}
			}
			if s := f.status(t, "model/a/m"); s.Failures != 4 || s.Phase != fusebox.Closed {
				t.Errorf("a is %v with %d failures", s.Phase, s.Failures)
			}
			before := b.hits()
			a.does(status(422, `{"error":{"message":"no such parameter"}}`))
			if got := f.post(t, c.path, c.body); got.status != 422 || !strings.Contains(got.body, "no such parameter") || b.hits() != before {
				t.Errorf("a request that is wrong: %d %s, b asked %d times", got.status, got.body, b.hits()-before)
			}
			a.does(status(200, c.answer))
			if got := f.post(t, c.path, c.body); got.body != c.answer || got.header.Get("Fusebox-Backend") != "a" {
				t.Errorf("a healthy backend: %d %s", got.status, got.body)
			}
		})
	}
}

// Text completions stream in a format of their own.
func TestTextCompletionsStream(t *testing.T) {
	const body = `{"model":"m","stream":true,"prompt":"hi"}`
	const text = `data: {"object":"text_completion","choices":[{"index":0,"text":"one ","finish_reason":null}]}`
	const end = `data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"stop"}]}`
	streams := func(steps ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { begin(w).then(r, steps...) }
	}
	for _, c := range []struct {
		name      string
		does      http.HandlerFunc
		by, has   string
		cut       bool
		failures  int
		wantClass fusebox.Class
	}{
		{"whole", streams(text, end, "done"), "a", "one ", false, 0, ""},
		{"whole, without an end marker", streams(text, end), "a", "one ", false, 0, ""},
		{"cut", streams(text, "abort"), "a", "The answer broke off", true, 1, fusebox.ClassStream},
		{"ended early", streams(text), "a", "The answer broke off", true, 1, fusebox.ClassStream},
		{"an error before the text", streams(`data: {"error":{"message":"fell over","code":"server_error"}}`), "b", "from b", false, 1, fusebox.ClassServer},
		{"an error after it", streams(text, `data: {"error":{"message":"fell over","code":"server_error"}}`), "a", "fell over", true, 1, fusebox.ClassServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _, _ := pair(t, trips(9, time.Hour), c.does, streams(strings.Replace(text, "one ", "from b", 1), end, "done"))
			got := f.post(t, "/v1/completions", body)
			if got.status != 200 || got.header.Get("Fusebox-Backend") != c.by || !strings.Contains(got.body, c.has) || (got.err != nil) != c.cut {
				t.Fatalf("%d by %q, %v: %s", got.status, got.header.Get("Fusebox-Backend"), got.err, got.body)
			}
			if s := f.status(t, "model/a/m"); s.Failures != c.failures || s.LastClass != c.wantClass {
				t.Fatalf("a has %d failures, the last %q", s.Failures, s.LastClass)
			}
		})
	}
}
