package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// held serves a gateway with whole answers over two upstreams, with a comment
// to waiting clients every few milliseconds.
func held(t *testing.T, limits gateway.Timeouts, first, second http.HandlerFunc) (f *front, a, b *upstream) {
	t.Helper()
	a, b = newUpstream(t, "a", first), newUpstream(t, "b", second)
	primary := a.backend()
	primary.Timeouts = limits
	f = newFront(t, trips(9, time.Hour), gateway.Config{KeepAlive: tick / 20, Backends: []gateway.Backend{primary, b.backend()},
		Routes: []gateway.Route{{Match: "*", Backends: gateway.InOrder("a", "b"), Answers: "whole"}}})
	return f, a, b
}

func TestAWholeAnswerIsMendedWhereverItBreaks(t *testing.T) {
	inBand := `data: {"error":{"message":"fell over","type":"server_error","code":"server_error"}}`
	for _, c := range []struct {
		name string
		a    http.HandlerFunc
	}{
		{"a break", chatStream("tokens of a", "reset")},
		{"an end without the answer's", chatStream("tokens of a")},
		{"silence", chatStream("tokens of a", "hang")},
		{"an error", chatStream("tokens of a", inBand)},
		{"an error after the last token", chatStream("tokens of a", "finish", inBand)},
		{"a throttle in the middle", chatStream("tokens of a", `data: {"error":{"message":"slow","code":"rate_limit_exceeded"}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, _, _ := held(t, gateway.Timeouts{Idle: tick}, c.a, chats("only b"))
				got := f.post(t, "/v1/chat/completions", streamedChat)
				if got.err != nil || got.status != 200 || got.text(t) != "only b" || strings.Count(got.body, `"role":"assistant"`) != 1 {
					t.Fatalf("%d, %v: %s", got.status, got.err, got.body)
				}
			})
		})
	}
}

func TestAWholeAnswerKeepsItsClientWithComments(t *testing.T) {
	goOn := make(chan struct{})
	f, _, _ := held(t, gateway.Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		chatStream("from a")(w, r)
		<-goOn
		sse{w}.then(r, "finish", "done")
	}, nil)
	got := f.postUntil(t, streamedChat, goOn)
	if got.err != nil || !strings.HasSuffix(got.body, "data: [DONE]\n\n") || got.text(t) != "from a" {
		t.Fatalf("%v: %s", got.err, got.body)
	}
	if by, how := got.trailer.Get("Fusebox-Backend"), got.trailer.Get("Fusebox-Outcome"); by != "a" || how != "ok" {
		t.Fatalf("the trailer says %q, %q", by, how)
	}
}

// postUntil asks for a chat and tells the upstreams to go on when two comments
// have come. They are no part of the answer that it returns.
func (f *front) postUntil(t *testing.T, body string, goOn chan<- struct{}) answer {
	t.Helper()
	response, err := f.Client().Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	const comment = ": held back until complete\n\n"
	two := make([]byte, 2*len(comment))
	if _, err := io.ReadFull(response.Body, two); err != nil || string(two) != comment+comment {
		t.Fatalf("%v: %q", err, two)
	}
	close(goOn)
	rest, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(rest), err, response.Trailer}
}

// Once comments are sent, status and header are gone: an error is told as the
// stream's, and the connection aborted.
func TestAnErrorAfterCommentsIsTheStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		a    http.HandlerFunc
		want string // of the last event
	}{
		{"the client's own mistake", (status(400, `{"error": {"message": "too hot", "code": "invalid_value"}}`)), `data: {"error":{"message":"too hot","code":"invalid_value"}}`},
		{"one that is not JSON", (status(400, `<h1>Bad Request</h1>`)), `data: {"error":{"message":"400 Bad Request"`},
		{"a model that nobody has", (status(404, `{"error":{"message":"no such model","code":"model_not_found"}}`)), `data: {"error":{"message":"no such model"`},
		{"an answer without a stream", (status(200, chatAnswer("hi"))), `data: {"error":{"message":"The backend answered without the stream`},
		{"nobody left", (status(503, tooBusy)), `data: {"error":{"message":"No backend has answered this request.`},
		{"in the middle of the stream", (chatStream("some", `data: {"error":{"message":"unfit","code":"content_filter"}}`)), `data: {"error":{"message":"unfit"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			late := func(w http.ResponseWriter, r *http.Request) {
				<-goOn
				c.a(w, r)
			}
			f, a, b := held(t, gateway.Timeouts{}, late, late)
			got := f.postUntil(t, streamedChat, goOn)
			events := strings.Split(strings.TrimSpace(got.body), "\n\n")
			if got.err == nil || !strings.HasPrefix(events[len(events)-1], c.want) {
				t.Fatalf("error %v, a asked %d times, b %d: %s", got.err, a.hits(), b.hits(), got.body)
			}
			if told := f.told(); len(told) != 1 || told[0].Outcome != "failed" {
				t.Fatalf("told of %+v", told)
			}
		})
	}
}

func TestAWholeAnswerIsHeldBackUpToALimit(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, body string
		a          http.HandlerFunc
	}{
		{"streamed", streamedChat, func(w http.ResponseWriter, r *http.Request) {
			s := begin(w)
			for r.Context().Err() == nil {
				s.send(`data: {"choices":[{"index":0,"delta":{"content":"` + large + `"}}]}`)
			}
		}},
		{"at once", plainChat, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"choices":[{"message":{"content":"`)
			for r.Context().Err() == nil {
				io.WriteString(w, large)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _, b := held(t, gateway.Timeouts{}, c.a, chats("from b"))
			got := f.post(t, "/v1/chat/completions", c.body)
			if len(got.body) > 100_000 || !strings.Contains(got.body, "larger than 33554432 bytes") || got.err == nil && got.status != 502 {
				t.Fatalf("%d, %v, %d bytes: %.300s", got.status, got.err, len(got.body), got.body)
			}
			if s := f.status(t, "model/a/m"); b.hits() != 0 || s.Failures != 0 {
				t.Fatalf("b was asked %d times, a has %d failures", b.hits(), s.Failures)
			}
		})
	}
}

func TestALargeWholeAnswerArrives(t *testing.T) {
	answer := chatAnswer(strings.Repeat("large ", 1<<20))
	f, _, _ := held(t, gateway.Timeouts{}, status(200, answer), nil)
	got := f.post(t, "/v1/chat/completions", plainChat)
	if got.err != nil || got.body != answer {
		t.Fatalf("%v, %d bytes of %d", got.err, len(got.body), len(answer))
	}
}

// A break of an answer that is not streamed is mended too, beyond what is held
// back of others.
func TestALargeAnswerThatBreaksIsMended(t *testing.T) {
	f, _, _ := held(t, gateway.Timeouts{}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"choices":"`+strings.Repeat("x", 3<<20))
		panic(http.ErrAbortHandler)
	}, chats("from b"))
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
}

// A stream that sends nothing but comments is silent.
func TestCommentsAreNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := limited(t, gateway.Timeouts{Idle: tick}, func(w http.ResponseWriter, r *http.Request) {
			chatStream("some")(w, r)
			for again(r, tick/10) {
				sse{w}.send(": PROCESSING")
			}
		})
		got := f.post(t, "/v1/chat/completions", streamedChat)
		if got.err == nil || !strings.Contains(got.body, fmt.Sprintf("no next token within %v", tick)) {
			t.Fatalf("%v: %s", got.err, got.body)
		}
		if s := f.status(t, "model/a/m"); s.LastClass != fusebox.ClassStall {
			t.Fatalf("a's last failure is of class %q", s.LastClass)
		}
	})
}
