package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// These are the ways in which other gateways failed their users; each test is
// named for what is right.

const tooBusy = `{"error":{"message":"too busy","type":"server_error","code":"server_error"}}`

// trips is a policy for every circuit: n failures in a row open it for a while.
func trips(n int, cooldown time.Duration) func(string) fusebox.Policy {
	return func(string) fusebox.Policy {
		p := fusebox.DefaultPolicy("model")
		p.Trip = []fusebox.Trip{fusebox.Streak(n)}
		p.Cooldown = fusebox.Cooldown{After: cooldown}
		return p
	}
}

// pair serves a gateway over two upstreams, a first.
func pair(t *testing.T, policy func(string) fusebox.Policy, first, second http.HandlerFunc) (f *front, a, b *upstream) {
	t.Helper()
	a, b = newUpstream(t, "a", first), newUpstream(t, "b", second)
	f = newFront(t, policy, gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()}})
	return f, a, b
}

// wants checks an answer's status, text and who gave it.
func (a answer) wants(t *testing.T, status int, text, backend, outcome string) {
	t.Helper()
	if a.err != nil || a.status != status || a.header.Get("Fusebox-Backend") != backend || a.header.Get("Fusebox-Outcome") != outcome {
		t.Fatalf("answer %d by %q, %q, error %v: %s", a.status, a.header.Get("Fusebox-Backend"), a.header.Get("Fusebox-Outcome"), a.err, a.body)
	}
	if text != "" && a.text(t) != text {
		t.Fatalf("text %q, want %q", a.text(t), text)
	}
}

func TestScenario1_ClientsThatHangUpAreNoEvidence(t *testing.T) {
	f, a, b := pair(t, trips(3, time.Hour), nil, chats("from b"))
	a.does(a.hang)
	for range 5 {
		if got := f.send(t, a.leaving(t), "POST", "/v1/chat/completions", plainChat); got.err == nil {
			t.Fatalf("an answer to a client that went away: %d", got.status)
		}
		receive(t, "a's call to end with its client", a.gone)
		receive(t, "the request to end", f.noted)
	}
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Failures != 0 {
		t.Fatalf("a is %v with %d failures", s.Phase, s.Failures)
	}
	if b.hits() != 0 {
		t.Fatalf("b was asked %d times", b.hits())
	}
	a.does(chats("from a"))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

func TestScenario2_AnOutageCostsThresholdCallsThenProbes(t *testing.T) {
	f, a, b := pair(t, trips(5, time.Hour), status(503, tooBusy), chats("from b"))
	for i := range 20 {
		path, body := "/v1/chat/completions", plainChat
		if i%2 == 1 {
			body = streamedChat
		}
		f.post(t, path, body).wants(t, 200, "from b", "b", "degraded")
	}
	if a.hits() != 5 || b.hits() != 20 {
		t.Fatalf("a was hit %d times, b %d; want 5 and 20", a.hits(), b.hits())
	}
}

func TestScenario2_RecoveryComesByOneProbe(t *testing.T) {
	f, a, _ := pair(t, trips(2, 20*time.Millisecond), status(503, tooBusy), chats("from b"))
	for range 2 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Open {
		t.Fatalf("a is %v after the threshold", s.Phase)
	}
	a.does(chats("from a"))
	eventually(t, "a to be back", func() bool {
		return f.post(t, "/v1/chat/completions", plainChat).header.Get("Fusebox-Backend") == "a"
	})
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed {
		t.Fatalf("a is %v after a probe that succeeded", s.Phase)
	}
}

func TestScenario3_AnErrorAfterThePreambleFailsOver(t *testing.T) {
	const inBand = `data: {"error":{"message":"upstream fell over","type":"server_error","code":"server_error"}}`
	t.Run("chat", func(t *testing.T) {
		f, _, _ := pair(t, trips(5, time.Hour), chatStream("", inBand), chats("only b"))
		got := f.post(t, "/v1/chat/completions", streamedChat)
		got.wants(t, 200, "only b", "b", "degraded")
		if strings.Contains(got.body, "fell over") || strings.Count(got.body, `"role":"assistant"`) != 1 {
			t.Fatalf("traces of a: %s", got.body)
		}
	})
	t.Run("responses, a quota under 200", func(t *testing.T) {
		failed := func(w http.ResponseWriter, r *http.Request) {
			s := begin(w)
			s.send("event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"r1"}}`)
			s.send("event: response.failed\n" + `data: {"type":"response.failed","sequence_number":1,"response":{"id":"r1","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`)
		}
		ok := func(w http.ResponseWriter, r *http.Request) {
			s := begin(w)
			s.send("event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"r2"}}`)
			s.send("event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":1,"delta":"only b"}`)
			s.send("event: response.completed\n" + `data: {"type":"response.completed","sequence_number":2,"response":{"id":"r2"}}`)
		}
		f, _, _ := pair(t, trips(5, time.Hour), failed, ok)
		got := f.post(t, "/v1/responses", `{"model":"m","stream":true,"input":"hi"}`)
		got.wants(t, 200, "", "b", "degraded")
		if strings.Contains(got.body, "r1") || !strings.Contains(got.body, "only b") {
			t.Fatalf("answer: %s", got.body)
		}
		if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Throttled.IsZero() {
			t.Fatalf("a is %v, throttled until %v; want closed and throttled", s.Phase, s.Throttled)
		}
	})
	t.Run("plain, an error under 200", func(t *testing.T) {
		f, _, _ := pair(t, trips(5, time.Hour), status(200, `{"error":{"message":"no provider","code":502}}`), chats("only b"))
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "only b", "b", "degraded")
		if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != fusebox.ClassServer {
			t.Fatalf("a has %d failures of class %q", s.Failures, s.LastClass)
		}
	})
}

func TestScenario4_NeverTwoBackendsInOneAnswer(t *testing.T) {
	overloaded := "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	a, b := newUpstream(t, "a", nil), newUpstream(t, "b", messages("from b"))
	f := newFront(t, trips(9, time.Hour), gateway.Config{Backends: []gateway.Backend{a.anthropic(), b.anthropic()}})

	a.does(messageStream("", overloaded))
	got := f.post(t, "/v1/messages", streamedMsg)
	got.wants(t, 200, "from b", "b", "degraded")
	if n := strings.Count(got.body, "event: message_start"); n != 1 {
		t.Fatalf("%d message_start: %s", n, got.body)
	}

	a.does(messageStream("tokens of a", overloaded))
	got = f.post(t, "/v1/messages", streamedMsg)
	if got.err == nil {
		t.Fatalf("a broken stream ended cleanly: %s", got.body)
	}
	if n := strings.Count(got.body, "event: message_start"); n != 1 || strings.Contains(got.body, "from b") || !strings.HasSuffix(got.body, overloaded+"\n\n") {
		t.Fatalf("want a's tokens and its error, have %s", got.body)
	}
	if s := f.status(t, "model/a/m"); s.LastClass != fusebox.ClassOverloaded || s.Failures != 2 {
		t.Fatalf("a has %d failures, the last %q", s.Failures, s.LastClass)
	}
}

func TestScenario5_AThrottledBackendIsLeftWithoutSleeping(t *testing.T) {
	f, a, _ := pair(t, nil, status(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", "30"), chats("from b"))
	for range 3 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if a.hits() != 1 {
		t.Fatalf("a was asked %d times within its Retry-After", a.hits())
	}
	s := f.status(t, "model/a/m")
	if left := time.Until(s.Throttled); s.Phase != fusebox.Closed || left < 20*time.Second || left > 30*time.Second {
		t.Fatalf("a is %v, throttled for %v; want closed and about 30 s", s.Phase, left)
	}
}

func TestScenario5_NoneLeftSaysWhenTheFirstReopens(t *testing.T) {
	limited := `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`
	f, a, b := pair(t, nil, status(429, limited, "Retry-After", "900"), status(429, limited, "Retry-After", "50"))
	for range 2 {
		got := f.post(t, "/v1/chat/completions", plainChat)
		after, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != 429 || after < 5 || after > 50 || got.header.Get("X-Should-Retry") != "" {
			t.Fatalf("%d, Retry-After %q, X-Should-Retry %q: %s", got.status, got.header.Get("Retry-After"), got.header.Get("X-Should-Retry"), got.body)
		}
	}
	if a.hits() != 1 || b.hits() != 1 {
		t.Fatalf("a was asked %d times, b %d", a.hits(), b.hits())
	}
}

func TestScenario6_AUsedUpQuotaIsALongBench(t *testing.T) {
	for name, reply := range map[string]http.HandlerFunc{
		"openai":        status(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`),
		"spend limit":   status(429, `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`),
		"out of credit": status(402, `{"error":{"message":"more credits","code":402}}`),
	} {
		t.Run(name, func(t *testing.T) {
			f, a, b := pair(t, nil, reply, chats("from b"))
			for range 4 {
				f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
			}
			if a.hits() != 1 {
				t.Fatalf("a was asked %d times", a.hits())
			}
			if left := time.Until(f.status(t, "model/a/m").Throttled); left < 30*time.Minute {
				t.Fatalf("a rests for %v only", left)
			}
			b.does(reply)
			got := f.post(t, "/v1/chat/completions", plainChat)
			if got.status != 429 || got.header.Get("X-Should-Retry") != "false" {
				t.Fatalf("%d, X-Should-Retry %q", got.status, got.header.Get("X-Should-Retry"))
			}
		})
	}
}

func TestScenario7_RetryAfterOnA503IsHonoured(t *testing.T) {
	for name, header := range map[string][]string{
		"seconds":      {"Retry-After", "20"},
		"a date":       {"Retry-After", time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)},
		"milliseconds": {"Retry-After-Ms", "20000"},
	} {
		t.Run(name, func(t *testing.T) {
			f, a, _ := pair(t, trips(5, time.Hour), status(503, tooBusy, header...), chats("from b"))
			for range 3 {
				f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
			}
			if a.hits() != 1 {
				t.Fatalf("a was asked %d times within its Retry-After", a.hits())
			}
			s := f.status(t, "model/a/m")
			if left := time.Until(s.Throttled); s.Failures != 1 || left < 10*time.Second || left > 20*time.Second {
				t.Fatalf("a has %d failures and is throttled for %v", s.Failures, left)
			}
		})
	}
}

func TestScenario8_ARefusedKeyIsTheCredentialsFate(t *testing.T) {
	refused := status(401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
	one, two, other := newUpstream(t, "one", refused), newUpstream(t, "two", refused), newUpstream(t, "other", chats("from other"))
	key := func(u *upstream, name string) gateway.Backend {
		b := u.backend()
		b.KeyName, b.Key = name, func() string { return "secret-of-" + name }
		return b
	}
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{key(one, "KEY_A"), key(two, "KEY_A"), key(other, "KEY_B")}})
	for _, model := range []string{"m1", "m2", "m3"} {
		body := strings.Replace(plainChat, `"m"`, `"`+model+`"`, 1)
		f.post(t, "/v1/chat/completions", body).wants(t, 200, "from other", "other", "degraded")
	}
	if one.hits() != 1 || two.hits() != 0 {
		t.Fatalf("the refused key was shown %d and %d times", one.hits(), two.hits())
	}
	if s := f.status(t, "credential/key_a"); s.Phase != fusebox.Open || s.LastClass != fusebox.ClassAuth || strings.Contains(s.LastError, "secret-of") {
		t.Fatalf("credential is %v, %q: %s", s.Phase, s.LastClass, s.LastError)
	}
	if s := f.status(t, "model/one/m1"); s.Phase != fusebox.Closed {
		t.Fatalf("the model's circuit is %v", s.Phase)
	}
	if got := other.last().header.Get("Authorization"); got != "Bearer secret-of-KEY_B" {
		t.Fatalf("other was shown %q", got)
	}
}

func TestScenario9_OneFailureOfTheOnlyBackendRefusesNobody(t *testing.T) {
	a := newUpstream(t, "a", status(503, tooBusy))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}})
	if got := f.post(t, "/v1/chat/completions", plainChat); got.status != 503 || got.header.Get("Retry-After") != "" {
		t.Fatalf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	a.does(chats("from a"))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

func TestScenario9_TheLastResortIsOneProbeACooldown(t *testing.T) {
	f, a, b := pair(t, trips(1, time.Hour), status(503, tooBusy), status(503, tooBusy))
	f.post(t, "/v1/chat/completions", plainChat) // opens both
	if a.hits() != 1 || b.hits() != 1 {
		t.Fatalf("a was asked %d times, b %d", a.hits(), b.hits())
	}
	for i := range 5 {
		got := f.post(t, "/v1/chat/completions", plainChat)
		after, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != 503 || got.header.Get("X-Should-Retry") != "false" || after < 3000 || after > 3600 {
			t.Fatalf("call %d: %d, Retry-After %d, X-Should-Retry %q: %s", i, got.status, after, got.header.Get("X-Should-Retry"), got.body)
		}
		if i > 2 && !strings.Contains(got.body, `"denied":{"circuit":"model/`) {
			t.Fatalf("the body has no denial: %s", got.body)
		}
	}
	if n := a.hits() + b.hits(); n != 4 {
		t.Fatalf("%d calls, want 2 that failed and one last resort for each circuit", n)
	}
	f2, a2, _ := pair(t, trips(1, time.Hour), status(503, tooBusy), status(503, tooBusy))
	f2.post(t, "/v1/chat/completions", plainChat)
	a2.does(chats("from a"))
	f2.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	if s := f2.status(t, "model/a/m"); s.Phase != fusebox.Closed {
		t.Fatalf("a is %v after a last resort that succeeded", s.Phase)
	}
}

func TestScenario10_ARefusedConnectionCountsLikeAnyFailure(t *testing.T) {
	b := newUpstream(t, "b", chats("from b"))
	f := newFront(t, trips(2, time.Hour), gateway.Config{Backends: []gateway.Backend{{Name: "a", URL: gateway.Nobody(t), Dialect: gateway.OpenAI}, b.backend()}})
	for range 3 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Open || s.LastClass != fusebox.ClassConnect || s.Failures != 2 {
		t.Fatalf("a is %v after %d failures of class %q", s.Phase, s.Failures, s.LastClass)
	}
}

func TestScenario11_ARequestVisitsABackendOnce(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	backends := []gateway.Backend{{Name: "a", URL: "http://127.0.0.1:1/v1", Dialect: gateway.OpenAI}, {Name: "b", URL: "http://127.0.0.1:1/v1", Dialect: gateway.OpenAI}}
	_, err = gateway.New(gateway.Config{Box: box, Backends: backends, Routes: []gateway.Route{{Match: "*", Backends: gateway.InOrder("a", "b", "a")}}})
	if err == nil || !strings.Contains(err.Error(), `"a" stands there twice`) {
		t.Fatalf("a route back to its start: %v", err)
	}
	for _, circle := range []struct {
		url, listen string
		refused     bool
	}{
		{"http://127.0.0.1:4040/v1", "127.0.0.1:4040", true},
		{"http://localhost:4040/v1", "127.0.0.1:4040", true},
		{"http://[::1]:4040/v1", ":4040", true},
		{"http://127.0.0.1:4040/v1", "0.0.0.0:4040", true},
		{"http://gateway.example.com/v1", "gateway.example.com:80", true},
		{"http://127.0.0.1:4040/v1", "127.0.0.1:4050", false},
		{"http://127.0.0.1/v1", "127.0.0.1:0", false},
		{"http://10.0.0.7:4040/v1", "127.0.0.1:4040", false},
		{"http://10.0.0.7:4040/v1", ":4040", false},
	} {
		b := gateway.Backend{Name: "a", URL: circle.url, Dialect: gateway.OpenAI}
		_, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{b}, Listen: circle.listen})
		if refused := err != nil && strings.Contains(err.Error(), "own address"); refused != circle.refused {
			t.Errorf("a backend at %s of a gateway at %s: %v", circle.url, circle.listen, err)
		}
	}
}

func TestScenario14_AWrongModelNameDisablesNothing(t *testing.T) {
	missing := status(404, `{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}`)
	f, a, b := pair(t, trips(1, time.Hour), missing, missing)
	for range 3 {
		got := f.post(t, "/v1/chat/completions", plainChat)
		if got.status != 404 || !strings.Contains(got.body, "does not exist") {
			t.Fatalf("%d: %s", got.status, got.body)
		}
	}
	if a.hits() != 3 || b.hits() != 3 {
		t.Fatalf("asked %d and %d times; a backend that lacks a model is no reason to stop at it", a.hits(), b.hits())
	}
	for _, circuit := range []string{"model/a/m", "model/b/m"} {
		if s := f.status(t, circuit); s.Phase != fusebox.Closed || s.Failures != 0 {
			t.Fatalf("%s is %v with %d failures", circuit, s.Phase, s.Failures)
		}
	}
	b.does(chats("from b"))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
}

// A refusal inside a stream that another backend might answer better, and that
// none does, reaches the client as an answer of its own.
func TestScenario14_AModelThatIsMissingInsideTheStream(t *testing.T) {
	missing := chatStream("", `data: {"error":{"message":"no such model","code":"model_not_found"}}`)
	f, _, b := pair(t, trips(1, time.Hour), missing, missing)
	got := f.post(t, "/v1/chat/completions", streamedChat)
	if got.err != nil || got.status != 400 || !strings.Contains(got.body, `"message":"no such model"`) || !strings.Contains(got.body, `"code":"model_not_found"`) {
		t.Fatalf("%d, %v: %s", got.status, got.err, got.body)
	}
	if b.hits() != 1 {
		t.Fatalf("b was asked %d times", b.hits())
	}
}

func TestScenario14_OwnRefusalsAreNoFailures(t *testing.T) {
	f, _, _ := pair(t, trips(1, time.Hour), status(503, tooBusy), chats("from b"))
	for range 10 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if s := f.status(t, "model/a/m"); s.Failures != 1 || s.Denied != 9 || s.Version != 1 {
		t.Fatalf("a: %d failures, %d denied, version %d; want 1, 9, 1", s.Failures, s.Denied, s.Version)
	}
}

func TestScenario15_StatusAndRoutingAgreeAtOnce(t *testing.T) {
	f, a, _ := pair(t, nil, chats("from a"), chats("from b"))
	c, err := f.box.Circuit("model/a/m")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.Trip("test")
		if s := f.status(t, "model/a/m"); s.Phase != fusebox.Open {
			t.Fatalf("status says %v", s.Phase)
		}
		before := a.hits()
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
		if a.hits() != before {
			t.Fatal("a was asked while its status said open")
		}
		c.Reset("test")
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	}
	if err := c.Hold(fusebox.Open, time.Time{}, "maintenance"); err != nil {
		t.Fatal(err)
	}
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
}

func TestScenario16_TheUpstreamCallEndsWithItsClient(t *testing.T) {
	f, a, _ := pair(t, trips(1, time.Hour), nil, chats("from b"))
	a.does(func(w http.ResponseWriter, r *http.Request) {
		s := begin(w)
		s.send(`data: {"choices":[{"index":0,"delta":{"content":"one"}}]}`)
		a.hang(w, r)
	})
	f.send(t, a.leaving(t), "POST", "/v1/chat/completions", streamedChat)
	receive(t, "a's call to end with its client", a.gone)
	receive(t, "the request to end", f.noted)
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Failures != 0 {
		t.Fatalf("a is %v with %d failures", s.Phase, s.Failures)
	}
	if got := f.told()[0]; got.Outcome != "canceled" {
		t.Fatalf("the request is told of as %q", got.Outcome)
	}
}

func TestScenario16_BodiesBeyondTheLimitAreRefused(t *testing.T) {
	f, a, _ := pair(t, nil, chats("from a"), chats("from b"))
	huge := `{"model":"m","messages":"` + strings.Repeat("x", 33<<20) + `"}`
	got := f.post(t, "/v1/chat/completions", huge)
	if got.err == nil && got.status != 413 {
		t.Fatalf("%d: %s", got.status, got.body)
	}
	if a.hits() != 0 {
		t.Fatal("a was asked")
	}
	large := fmt.Sprintf(`{"model":"m","messages":%q}`, strings.Repeat("x", 20<<20))
	f.post(t, "/v1/chat/completions", large).wants(t, 200, "from a", "a", "ok")
	if len(a.last().body) != len(large) {
		t.Fatalf("a got %d bytes of %d", len(a.last().body), len(large))
	}
}
