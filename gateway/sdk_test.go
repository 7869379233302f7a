package gateway_test

import (
	"context"
	"errors"
	"net/http"
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

// short are limits that make a backend that hangs a matter of a second, and
// that one which answers keeps on a busy machine, too.
var short = gateway.Timeouts{Headers: time.Second, FirstToken: time.Second, Idle: time.Second}

// firstBackendStory is the life of the first of two backends, seen through an SDK: it
// answers, dies, comes back, is too busy, hangs, breaks off. cut is an answer
// that breaks off after its first content.
func firstBackendStory(t *testing.T, a, b *upstream, f *front, healthy, cut http.HandlerFunc, ask asker) {
	t.Helper()
	bounded := func(stream bool) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		return ask(ctx, stream)
	}
	both := func(want string) {
		t.Helper()
		for _, stream := range []bool{false, true} {
			text, err := bounded(stream)
			if err != nil || strings.TrimSpace(text) != want {
				t.Fatalf("stream %v: %q, error %v; want %q", stream, text, err, want)
			}
		}
	}
	back := func() {
		t.Helper()
		a.does(healthy)
		eventually(t, "a to be back", func() bool {
			text, err := bounded(false)
			return err == nil && strings.TrimSpace(text) == "from a"
		})
		both("from a")
	}
	both("from a")

	a.does(reset) // it dies
	both("from b")
	both("from b")
	if s := f.status(t, "model/a/m"); s.Health != fusebox.Down {
		t.Fatalf("a is %v after it died", s.Health)
	}
	back()

	a.does(status(429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "1"))
	before := a.hits()
	both("from b")
	at := a.times()[before:]
	for i := range at[1:] {
		if wait := at[i+1].Sub(at[i]); wait < 900*time.Millisecond {
			t.Fatalf("a was asked again %v after it wanted to be left alone for a second", wait)
		}
	}
	back()

	a.does(a.hang)
	both("from b")
	back()

	a.does(cut)
	text, err := bounded(true)
	if err == nil {
		t.Fatalf("an answer that was cut off looked like success: %q", text)
	}
}

func sdkPair(t *testing.T, healthy, other http.HandlerFunc, dialect gateway.Dialect) (*front, *upstream, *upstream) {
	t.Helper()
	a, b := newUpstream(t, "a", healthy), newUpstream(t, "b", other)
	first, second := a.backend(), b.backend()
	first.Dialect, second.Dialect = dialect, dialect
	first.Timeouts = short
	f := newFront(t, trips(2, 50*time.Millisecond), gateway.Config{Backends: []gateway.Backend{first, second}})
	return f, a, b
}

func TestOpenAIGoSDK_Chat(t *testing.T) {
	f, a, b := sdkPair(t, chats("from a"), chats("from b"), gateway.OpenAI)
	client := openai.NewClient(option.WithBaseURL(f.URL+"/v1"), option.WithAPIKey("of the client"))
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
	firstBackendStory(t, a, b, f, chats("from a"), chatStream("from", "reset"), func(ctx context.Context, stream bool) (string, error) {
		if !stream {
			answer, err := client.Chat.Completions.New(ctx, params)
			if err != nil {
				return "", err
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
	})
	if got := b.last().header.Get("Authorization"); got != "" {
		t.Fatalf("the client's key leaked: %q", got)
	}
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

func TestOpenAIGoSDK_Responses(t *testing.T) {
	f, a, b := sdkPair(t, responds("from a"), responds("from b"), gateway.OpenAI)
	client := openai.NewClient(option.WithBaseURL(f.URL+"/v1"), option.WithAPIKey("of the client"))
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
	firstBackendStory(t, a, b, f, responds("from a"), responds("from", "reset"), func(ctx context.Context, stream bool) (text string, err error) {
		if !stream {
			answer, err := client.Responses.New(ctx, params)
			if err != nil {
				return "", err
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
	})
}

func TestAnthropicGoSDK(t *testing.T) {
	f, a, b := sdkPair(t, messages("from a"), messages("from b"), gateway.Anthropic)
	client := anthropic.NewClient(anthropicoption.WithBaseURL(f.URL), anthropicoption.WithAPIKey("of the client"))
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))}}
	firstBackendStory(t, a, b, f, messages("from a"), messageStream("from", "reset"), func(ctx context.Context, stream bool) (string, error) {
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
	})
	if got := b.last().header.Get("X-Api-Key"); got != "" {
		t.Fatalf("the client's key leaked: %q", got)
	}
}

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
