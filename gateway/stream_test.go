package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// limited serves a gateway over a with limits, and b.
func limited(t *testing.T, limits gateway.Timeouts, first http.HandlerFunc) (*front, *upstream, *upstream) {
	t.Helper()
	a, b := newUpstream(t, "a", first), newUpstream(t, "b", chats("from b"))
	slow := a.backend()
	slow.Timeouts = limits
	return newFront(t, trips(5, time.Hour), gateway.Config{Backends: []gateway.Backend{slow, b.backend()}}), a, b
}

const tick = 100 * time.Millisecond

// again waits for a while, and reports whether the request is still there.
func again(r *http.Request, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-r.Context().Done():
		return false
	}
}

func TestLimitsEndWhatHangs(t *testing.T) {
	whole := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"choices":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	headersOnly := func(w http.ResponseWriter, r *http.Request) {
		begin(w)
		<-r.Context().Done()
	}
	keptAlive := func(w http.ResponseWriter, r *http.Request) {
		for s := begin(w); again(r, tick/10); {
			s.send(": PROCESSING")
		}
	}
	never := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for _, c := range []struct {
		name   string
		limits gateway.Timeouts
		does   http.HandlerFunc
		body   string
		class  fusebox.Class
		says   string
	}{
		{"no header of a stream", gateway.Timeouts{Headers: tick}, never, streamedChat, fusebox.ClassTimeout, "no response header within 100ms"},
		{"no header, of any", gateway.Timeouts{Headers: tick}, never, plainChat, fusebox.ClassTimeout, "no response header within 100ms"},
		{"the total", gateway.Timeouts{Total: tick}, never, plainChat, fusebox.ClassTimeout, "no complete answer within 100ms"},
		{"S07: a header and no token", gateway.Timeouts{FirstToken: tick}, headersOnly, streamedChat, fusebox.ClassTimeout, "no first token within 100ms"},
		{"comments are no token", gateway.Timeouts{FirstToken: tick}, keptAlive, streamedChat, fusebox.ClassTimeout, "no first token within 100ms"},
		{"the preamble is no token", gateway.Timeouts{FirstToken: tick}, chatStream("", "hang"), streamedChat, fusebox.ClassTimeout, "no first token within 100ms"},
		{"silence in a body", gateway.Timeouts{Idle: tick}, whole, plainChat, fusebox.ClassStall, "no next token within 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, _ := limited(t, c.limits, c.does)
				began := time.Now()
				f.post(t, "/v1/chat/completions", c.body).wants(t, 200, "from b", "b", "degraded")
				if took := time.Since(began); took != tick {
					t.Errorf("it took %v", took)
				}
				if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != c.class || s.LastError != c.says {
					t.Fatalf("%d failures, class %q: %s", s.Failures, s.LastClass, s.LastError)
				}
			})
		})
	}
}

// A stream that flows for ever is ended by the total, and its client told.
func TestTheTotalEndsAStreamThatFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, b := limited(t, gateway.Timeouts{Total: 3 * tick}, func(w http.ResponseWriter, r *http.Request) {
			chatStream("one")(w, r)
			for again(r, tick/10) {
				sse{w}.send(`data: {"choices":[{"index":0,"delta":{"content":"more "}}]}`)
			}
		})
		got := f.post(t, "/v1/chat/completions", streamedChat)
		if got.err == nil || !strings.Contains(got.body, "The answer broke off: no complete answer within 300ms") || b.hits() != 0 {
			t.Fatalf("%d bytes, error %v, b asked %d times", len(got.body), got.err, b.hits())
		}
		if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != fusebox.ClassTimeout {
			t.Fatalf("%d failures, class %q: %s", s.Failures, s.LastClass, s.LastError)
		}
	})
}

func TestAWholeAnswerMayTakeItsTime(t *testing.T) {
	f, _, _ := limited(t, gateway.Timeouts{FirstToken: time.Millisecond}, chats("from a"))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

// A long stream is not overdue once its content comes; a silent one is.
func TestAStreamIsNotOverdueOnceItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		a := newUpstream(t, "a", func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(lastBody(r), `"silent"`) {
				<-r.Context().Done()
				return
			}
			chatStream("one")(w, r)
			<-goOn
			sse{w}.then(r, "finish", "done")
		})
		policy := func(circuit string) fusebox.Policy {
			p := trips(5, time.Hour)(circuit)
			p.Overdue = time.Second
			return p
		}
		f := newFront(t, policy, gateway.Config{Backends: []gateway.Backend{a.backend()}})
		long, err := f.Client().Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamedChat))
		if err != nil {
			t.Fatal(err)
		}
		defer long.Body.Close()
		ctx, cancel := context.WithCancel(t.Context())
		silent := make(chan answer, 1)
		go func() {
			silent <- f.send(t, ctx, http.MethodPost, "/v1/chat/completions", strings.Replace(streamedChat, `"m"`, `"silent"`, 1))
		}()
		eventually(t, "the silent call to be overdue", func() bool { return f.status(t, "model/a/silent").Failures == 1 })
		close(goOn)
		if body, err := io.ReadAll(long.Body); err != nil || !strings.Contains(string(body), "[DONE]") {
			t.Errorf("%v: %s", err, body)
		}
		cancel()
		receive(t, "the end of the silent call", silent)
		eventually(t, "the long call's result", func() bool { return f.status(t, "model/a/m").Health == fusebox.Up })
		if s := f.status(t, "model/a/m"); s.Failures != 0 {
			t.Errorf("a stream that went on is a failure: %+v", s)
		}
	})
}

func TestS08_ACutStreamNeverEndsCleanly(t *testing.T) {
	for _, c := range []struct {
		name, end string
		class     fusebox.Class
	}{
		{"by a reset", "reset", fusebox.ClassStream},
		{"by an abort", "abort", fusebox.ClassStream},
		{"by a clean end of the connection", "", fusebox.ClassStream},
		{"in the middle of an event", "data: {\"choices\":[{\"index\":0,\"del", fusebox.ClassStream},
		{"by an event that is not JSON", "data: <html>oops</html>", fusebox.ClassStream},
	} {
		t.Run(c.name, func(t *testing.T) {
			var steps []string
			if c.end != "" {
				steps = append(steps, c.end)
			}
			breaksOff(t, c.class, chatStream("one two three", steps...))
		})
	}
	t.Run("by silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { breaksOff(t, fusebox.ClassStall, chatStream("one two three", "hang")) })
	})
}

// breaksOff requires that the client of a stream of three words is told of its
// end, and that it is a failure of a class.
func breaksOff(t *testing.T, class fusebox.Class, stream http.HandlerFunc) {
	t.Helper()
	f, _, b := limited(t, gateway.Timeouts{}, stream)
	got := f.post(t, "/v1/chat/completions", streamedChat)
	if got.err == nil || b.hits() != 0 {
		t.Fatalf("error %v, b asked %d times: %s", got.err, b.hits(), got.body)
	}
	events := strings.Split(strings.TrimSpace(got.body), "\n\n")
	if len(events) != 5 || !strings.Contains(events[4], `"error":{"message":"The answer broke off: `) || strings.Contains(got.body, "oops") {
		t.Fatalf("want the role, three words and an error, have %s", got.body)
	}
	receive(t, "the request to end", f.noted)
	if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != class || f.told()[0].Outcome != "failed" {
		t.Fatalf("%d failures, class %q, outcome %q", s.Failures, s.LastClass, f.told()[0].Outcome)
	}
}

func TestTheErrorEventIsTheDialects(t *testing.T) {
	a := newUpstream(t, "a", messageStream("one", "reset"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.anthropic()}})
	if got := f.post(t, "/v1/messages", streamedMsg); got.err == nil || !strings.Contains(got.body, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"") {
		t.Fatalf("%v: %s", got.err, got.body)
	}
	b := newUpstream(t, "b", responds("one", "reset"))
	g := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{b.backend()}})
	if got := g.post(t, "/v1/responses", `{"model":"m","stream":true}`); got.err == nil || !strings.Contains(got.body, "event: error\ndata: {\"type\":\"error\"") || !strings.Contains(got.body, `"sequence_number":2`) {
		t.Fatalf("%v: %s", got.err, got.body)
	}
}

func TestS11_ACompleteStreamEndsPromptly(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"with all of it", []string{"finish", "usage", "done"}},
		{"without [DONE]", []string{"finish", "usage"}},
		{"without [DONE], and then silence", []string{"finish", "usage", "hang"}},
		{"without [DONE], and then a reset", []string{"finish", "usage", "reset"}},
		{"with [DONE], and then silence", []string{"finish", "done", "hang"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _, _ := limited(t, gateway.Timeouts{Idle: tick}, chatStream("all of it", c.steps...))
				began := time.Now()
				got := f.post(t, "/v1/chat/completions", streamedChat)
				got.wants(t, 200, "all of it", "a", "ok")
				if took := time.Since(began); took > tick || c.steps[1] == "usage" && !strings.Contains(got.body, `"usage"`) {
					t.Fatalf("after %v: %s", took, got.body)
				}
				if s := f.status(t, "model/a/m"); s.Failures != 0 || s.Health != fusebox.Up {
					t.Fatalf("%d failures, %v", s.Failures, s.Health)
				}
			})
		})
	}
}

func TestSeveralAnswersHaveFinishedWhenAllHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		choice := func(i int, delta, finish string) string {
			return `data: {"choices":[{"index":` + strconv.Itoa(i) + `,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
		}
		f, _, _ := limited(t, gateway.Timeouts{Idle: tick}, chatStream("", choice(0, `{"content":"a"}`, "null"), choice(0, `{}`, `"stop"`), "hang"))
		if got := f.post(t, "/v1/chat/completions", strings.Replace(streamedChat, `{`, `{"n":2,`, 1)); got.err == nil {
			t.Fatalf("half of two answers ended cleanly: %s", got.body)
		}
	})
}

func TestBytesPassUntouchedWhateverTheirShape(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	huge := strings.Repeat("y", 5<<20)
	raw := ": a comment\r\n\r\nretry: 5\r\nid: 7\r\ndata: {\"choices\":[{\"index\":0,\r\ndata: \"delta\":{\"content\":\"two lines\"}}]}\r\n\r\n" +
		"data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + big + "\"}}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + huge + "\"}}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"after\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]"
	f, _, _ := limited(t, gateway.Timeouts{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("X-Request-Id", "r1")
		io.WriteString(w, raw)
	})
	got := f.post(t, "/v1/chat/completions", streamedChat)
	if got.err != nil || got.body != raw || got.header.Get("X-Request-Id") != "r1" {
		t.Fatalf("%v, %d bytes of %d, id %q", got.err, len(got.body), len(raw), got.header.Get("X-Request-Id"))
	}
}

func TestALargeWholeAnswerPassesAndItsBreakIsTold(t *testing.T) {
	large := chatAnswer(strings.Repeat("z", 3<<20))
	f, a, b := limited(t, gateway.Timeouts{}, status(200, large))
	if got := f.post(t, "/v1/chat/completions", plainChat); got.err != nil || got.body != large {
		t.Fatalf("%v, %d bytes of %d", got.err, len(got.body), len(large))
	}
	part := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(large)))
			io.WriteString(w, large[:n])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	a.does(part(2 << 20))
	if got := f.post(t, "/v1/chat/completions", plainChat); got.err == nil || b.hits() != 0 {
		t.Fatalf("a part of an answer looked whole: %d bytes", len(got.body))
	}
	a.does(part(1000))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	if s := f.status(t, "model/a/m"); s.Failures != 2 || s.LastClass != fusebox.ClassStream {
		t.Fatalf("%d failures, class %q", s.Failures, s.LastClass)
	}
}

func TestAnAnswerThatIsNotJSONIsNone(t *testing.T) {
	for _, body := range []string{"<html>log in</html>", "", `{"choices":[`} {
		f, _, _ := limited(t, gateway.Timeouts{}, status(200, body))
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
}

func TestS13_WhatTheClientDidWrongIsAskedOnce(t *testing.T) {
	for name, reply := range map[string]http.HandlerFunc{
		"content filter": status(400, `{"error":{"message":"too long","code":"content_policy_violation"}}`),
		"moderation":     status(403, `{"error":{"message":"too long","code":"content_filter"}}`),
		"in the stream":  chatStream("", `data: {"error":{"message":"too long","code":"invalid_prompt"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newUpstream(t, "a", reply), newUpstream(t, "b", chats("from b"))
			f := newFront(t, trips(1, time.Hour), gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()}, Retry: fusebox.DefaultRetry()})
			got := f.post(t, "/v1/chat/completions", streamedChat)
			if got.err != nil || !strings.Contains(got.body, "too long") || a.hits() != 1 || b.hits() != 0 || got.header.Get("Fusebox-Backend") != "a" {
				t.Fatalf("%d, %v, a asked %d times, b %d: %s", got.status, got.err, a.hits(), b.hits(), got.body)
			}
			if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Failures != 0 {
				t.Fatalf("a is %v with %d failures", s.Phase, s.Failures)
			}
		})
	}
}
