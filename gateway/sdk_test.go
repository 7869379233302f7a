package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// asker asks a model through an official SDK and returns the whole text.
type asker func(ctx context.Context, stream bool) (string, error)

// short are limits for a backend that hangs: one that answers would not keep
// them on a busy machine.
var short = gateway.Timeouts{Headers: tick, FirstToken: tick, Idle: tick}

// sdk is an official client of a provider, with its own retries on.
type sdk struct {
	name    string
	dialect gateway.Dialect
	answers func(text string) http.HandlerFunc
	breaks  http.HandlerFunc // an answer that breaks off after its first content
	inBand  http.HandlerFunc // an error under a good status, before any content
	client  func(t *testing.T, url string) asker
}

// sdks are all of them.
var sdks = []sdk{
	{"openai-go, chat", gateway.OpenAI, chats, chatStream("from", "reset"), chatInBand, goChat},
	{"openai-go, responses", gateway.OpenAI, func(text string) http.HandlerFunc { return responds(text) }, responds("from", "reset"), responsesInBand, goResponses},
	{"anthropic-sdk-go", gateway.Anthropic, messages, messageStream("from", "reset"), messagesInBand, goMessages},
	{"openai for Node, chat", gateway.OpenAI, chats, chatStream("from", "reset"), chatInBand, nodeChat},
	{"openai for Node, responses", gateway.OpenAI, func(text string) http.HandlerFunc { return responds(text) }, responds("from", "reset"), responsesInBand, nodeResponses},
	{"@anthropic-ai/sdk for Node", gateway.Anthropic, messages, messageStream("from", "reset"), messagesInBand, nodeMessages},
}

// askedBy is an SDK in front of a gateway with two backends.
type askedBy struct {
	sdk
	*front
	a, b  *upstream
	whole bool
	ask   asker
}

// everySDK runs a test with every SDK and both ways of handing answers on.
func everySDK(t *testing.T, policy func(string) fusebox.Policy, run func(*testing.T, *askedBy)) {
	t.Helper()
	for _, s := range sdks {
		for _, way := range []string{"pass", "whole"} {
			t.Run(s.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				c := &askedBy{sdk: s, whole: way == "whole", a: newUpstream(t, "a", s.answers("from a")), b: newUpstream(t, "b", s.answers("from b"))}
				first, second := c.a.backend(), c.b.backend()
				first.Dialect, second.Dialect = s.dialect, s.dialect
				c.front = newFront(t, policy, gateway.Config{Backends: []gateway.Backend{first, second},
					Routes: []gateway.Route{{Match: "*", Backends: gateway.InOrder("a", "b"), Answers: way}}})
				url := c.front.URL
				if s.dialect == gateway.OpenAI {
					url += "/v1"
				}
				c.ask = s.client(t, url)
				run(t, c)
			})
		}
	}
}

// bounded asks once.
func (c *askedBy) bounded(t *testing.T, stream bool) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := c.ask(ctx, stream)
	return strings.TrimSpace(text), err
}

// gets asks for both kinds of answers.
func (c *askedBy) gets(t *testing.T, want string) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		if text, err := c.bounded(t, stream); err != nil || text != want {
			t.Fatalf("stream %v: %q, error %v; want %q", stream, text, err, want)
		}
	}
}

// heals lets the first backend answer again, and waits until it is in service.
func (c *askedBy) heals(t *testing.T) {
	t.Helper()
	c.a.does(c.answers("from a"))
	eventually(t, "a to be back", func() bool {
		text, err := c.bounded(t, false)
		return err == nil && text == "from a"
	})
	c.gets(t, "from a")
}

// hurries gives the first backend little time, and clients that wait comments.
// A comment is the beginning of an answer: whoever wants to see a status must
// not be sent any because the machine is slow.
func (c *askedBy) hurries(t *testing.T) {
	t.Helper()
	cfg := c.cfg
	cfg.Backends = slices.Clone(cfg.Backends)
	cfg.Backends[0].Timeouts, cfg.KeepAlive = short, tick/20
	c.goOnWith(t, cfg)
}

// The life of the first of two backends, seen through the official clients: it
// answers, dies, comes back, is too busy, hangs, says under a good status that
// it failed, breaks off.
func TestSDKsDoNotFeelTheFirstBackendFail(t *testing.T) {
	everySDK(t, trips(2, 50*time.Millisecond), func(t *testing.T, c *askedBy) {
		c.gets(t, "from a")

		c.a.does(reset)
		c.gets(t, "from b")
		c.gets(t, "from b")
		if s := c.status(t, "model/a/m"); s.Health != fusebox.Down {
			t.Fatalf("a is %v after it died", s.Health)
		}
		c.heals(t)

		c.a.does(status(429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "1"))
		before := c.a.hits()
		c.gets(t, "from b")
		at := c.a.times()[before:]
		for i := range at[1:] {
			if wait := at[i+1].Sub(at[i]); wait < 900*time.Millisecond {
				t.Fatalf("a was asked again %v after it wanted to be left alone for a second", wait)
			}
		}
		c.heals(t)

		c.a.does(c.a.hang)
		c.hurries(t)
		c.gets(t, "from b")
		c.goOnWith(t, c.cfg)
		c.heals(t)

		c.a.does(c.inBand)
		c.gets(t, "from b")
		c.heals(t)

		c.a.does(c.breaks)
		before = c.b.hits()
		text, err := c.bounded(t, true)
		if c.whole && (err != nil || text != "from b") {
			t.Fatalf("held back until complete: %q, error %v", text, err)
		}
		if !c.whole && (err == nil || c.b.hits() != before) {
			t.Fatalf("an answer that was cut off looked like success: %q; b was asked %d times", text, c.b.hits()-before)
		}

		for name, value := range c.b.last().header { // nobody's key but its own
			if strings.Contains(strings.Join(value, " "), "of the client") {
				t.Fatalf("the client's key leaked as %s", name)
			}
		}
	})
}

// With every circuit open the SDKs are told not to try again, and do not.
func TestSDKsAreToldNotToTryAgain(t *testing.T) {
	everySDK(t, trips(1, time.Hour), func(t *testing.T, c *askedBy) {
		for _, u := range []*upstream{c.a, c.b} {
			u.does(status(500, tooBusy))
		}
		fails := func(what string, calls int) {
			t.Helper()
			for _, stream := range []bool{false, true} {
				arrived, asked := c.arrived.Load(), c.a.hits()+c.b.hits()
				if text, err := c.bounded(t, stream); err == nil {
					t.Fatalf("%s, stream %v: an answer from nowhere: %q", what, stream, text)
				}
				if n, m := c.arrived.Load()-arrived, c.a.hits()+c.b.hits()-asked; n != 1 || m > calls {
					t.Fatalf("%s, stream %v: the SDK asked %d times, the providers were called %d times", what, stream, n, m)
				}
			}
		}
		fails("the circuits open, and the last resort", 2)
		fails("the other last resort", 1)
		fails("all circuits are open", 0)
		if _, err := c.bounded(t, false); !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "Continue without this model") {
			t.Fatalf("the SDK says: %v", err)
		}
	})
}

// While all backends are throttled for a little the SDKs wait for as long as the
// gateway says, and then have an answer.
func TestSDKsWaitForAThrottleToEnd(t *testing.T) {
	everySDK(t, trips(2, time.Hour), func(t *testing.T, c *askedBy) {
		slow := status(429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "1")
		for _, stream := range []bool{false, true} {
			c.a.does(slow)
			c.b.does(once(slow, c.answers("from b")))
			arrived, before := c.arrived.Load(), c.b.hits()
			if text, err := c.bounded(t, stream); err != nil || text != "from b" {
				t.Fatalf("stream %v: %q, error %v", stream, text, err)
			}
			at := c.b.times()[before:]
			if len(at) != 2 || at[1].Sub(at[0]) < 900*time.Millisecond || c.arrived.Load()-arrived < 2 {
				t.Fatalf("stream %v: b was asked at %v", stream, at)
			}
			for _, name := range []string{"model/a/m", "model/b/m"} {
				circuit, err := c.box.Circuit(name)
				if err != nil {
					t.Fatal(err)
				}
				circuit.Reset("the next round")
			}
		}
	})
}

func chatInBand(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(lastBody(r), `"stream":true`) {
		chatStream("", `data: {"error":{"message":"fell over","type":"server_error","code":"server_error"}}`)(w, r)
		return
	}
	status(200, tooBusy)(w, r)
}

func responsesInBand(w http.ResponseWriter, r *http.Request) {
	const failed = `{"id":"r","object":"response","status":"failed","model":"m","output":[],"error":{"code":"server_error","message":"fell over"}}`
	if !strings.Contains(lastBody(r), `"stream":true`) {
		status(200, failed)(w, r)
		return
	}
	s := begin(w)
	s.send("event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}`)
	s.send("event: response.failed\n" + `data: {"type":"response.failed","sequence_number":1,"response":` + failed + `}`)
}

func messagesInBand(w http.ResponseWriter, r *http.Request) {
	const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	if strings.Contains(lastBody(r), `"stream":true`) {
		messageStream("", "event: error\ndata: "+overloaded)(w, r)
		return
	}
	status(200, overloaded)(w, r)
}

// responds answers OpenAI's Responses API.
func responds(text string, end ...string) http.HandlerFunc {
	const created = `{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[]}}`
	completed := `{"id":"r","object":"response","status":"completed","error":null,"model":"m","output":[{"type":"message","id":"o","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}]}`
	if end == nil {
		end = []string{"event: response.completed\n" + `data: {"type":"response.completed","sequence_number":2,"response":` + completed + `}`}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(lastBody(r), `"stream":true`) {
			status(200, completed)(w, r)
			return
		}
		s := begin(w)
		s.send("event: response.created\ndata: " + created)
		s.send("event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":1,"item_id":"o","output_index":0,"content_index":0,"delta":"` + text + `"}`)
		s.then(r, end...)
	}
}

func goChat(_ *testing.T, url string) asker {
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("of the client"))
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	return func(ctx context.Context, stream bool) (string, error) {
		if !stream {
			answer, err := client.Chat.Completions.New(ctx, params)
			if err != nil {
				return "", worded(err)
			}
			return answer.Choices[0].Message.Content, nil
		}
		s := client.Chat.Completions.NewStreaming(ctx, params)
		defer s.Close()
		sum := openai.ChatCompletionAccumulator{}
		for s.Next() {
			sum.AddChunk(s.Current())
		}
		if s.Err() != nil {
			return "", s.Err()
		}
		if len(sum.Choices) == 0 || sum.Choices[0].FinishReason != "stop" {
			return "", errors.New("the stream ended without an end")
		}
		return sum.Choices[0].Message.Content, nil
	}
}

// worded adds what the error says, which openai-go keeps out of its text.
func worded(err error) error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return fmt.Errorf("%w: %s", err, e.Message)
	}
	return err
}

func goResponses(_ *testing.T, url string) asker {
	client := openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("of the client"))
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
	return func(ctx context.Context, stream bool) (text string, err error) {
		if !stream {
			answer, err := client.Responses.New(ctx, params)
			if err != nil {
				return "", worded(err)
			}
			return answer.OutputText(), nil
		}
		s := client.Responses.NewStreaming(ctx, params)
		defer s.Close()
		whole := false
		for s.Next() {
			event := s.Current()
			text += event.AsResponseOutputTextDelta().Delta
			whole = whole || event.Type == "response.completed"
			if event.Type == "error" {
				return "", errors.New(event.AsError().Message)
			}
		}
		if s.Err() == nil && !whole {
			return "", errors.New("the stream ended without an end")
		}
		return text, s.Err()
	}
}

func goMessages(_ *testing.T, url string) asker {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("of the client"))
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
	return func(ctx context.Context, stream bool) (string, error) {
		sum := anthropic.Message{}
		if !stream {
			answer, err := client.Messages.New(ctx, params)
			if err != nil {
				return "", err
			}
			sum = *answer
		} else {
			s := client.Messages.NewStreaming(ctx, params)
			defer s.Close()
			for s.Next() {
				if err := sum.Accumulate(s.Current()); err != nil {
					return "", err
				}
			}
			if s.Err() != nil {
				return "", s.Err()
			}
		}
		if sum.StopReason != "end_turn" {
			return "", errors.New("the stream ended without an end")
		}
		return sum.Content[0].Text, nil
	}
}

func nodeChat(t *testing.T, url string) asker      { return nodeClient(t, "chat", url) }
func nodeResponses(t *testing.T, url string) asker { return nodeClient(t, "responses", url) }
func nodeMessages(t *testing.T, url string) asker  { return nodeClient(t, "anthropic", url) }

func TestScenario12_SDKRetriesStayWithinTheBudget(t *testing.T) {
	a, b := newUpstream(t, "a", status(500, tooBusy)), newUpstream(t, "b", status(500, tooBusy))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()},
		Retry: fusebox.Retry{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond, Budget: fusebox.Budget{Ratio: 0.2, PerMinute: 10}}})
	client := openai.NewClient(option.WithBaseURL(f.URL+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(2))
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	for range 10 {
		if _, err := client.Chat.Completions.New(t.Context(), params); err == nil {
			t.Fatal("an answer from nowhere")
		}
	}
	// The SDK is told at once that it need not try again. Until the circuits open
	// each sees five visits of two attempts; then there is the last resort.
	if n := a.hits() + b.hits(); n > 2*5*2+2 || f.arrived.Load() != 10 {
		t.Fatalf("10 requests that the SDK may try 3 times became %d, and %d calls", f.arrived.Load(), n)
	}
	var refused *openai.Error
	if _, err := client.Chat.Completions.New(t.Context(), params); !errors.As(err, &refused) || refused.StatusCode != 503 {
		t.Fatalf("with all circuits open: %v", err)
	}
	before := f.arrived.Load()
	client.Chat.Completions.New(t.Context(), params)
	if n := f.arrived.Load() - before; n != 1 {
		t.Fatalf("the SDK asked %d times although it was told not to", n)
	}
}
