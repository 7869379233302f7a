package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// Sixteen ways in which a provider fails, each with one primary and one
// fallback, in both dialects and both ways of handing answers on. The caller
// must have the whole answer, or know that it has not; and what the primary
// was asked must be bounded.

// tongue is a dialect as the tests speak it.
type tongue struct {
	dialect    gateway.Dialect
	path, body string
	answers    func(text string) http.HandlerFunc
	stream     func(text string, steps ...string) http.HandlerFunc
	finish     []string // the answer is complete
	marker     string   // and this the stream's own end, as it stands in the body
	busy       string   // an error's body
	tooLong    string   // the context is
	filtered   string   // by the provider's rules
}

var tongues = []tongue{
	{dialect: gateway.OpenAI, path: "/v1/chat/completions", body: streamedChat, answers: chats, stream: chatStream,
		finish: []string{"finish", "usage"}, marker: "data: [DONE]", busy: tooBusy,
		tooLong:  `{"error":{"message":"maximum context length is 9","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		filtered: `{"error":{"message":"against the rules","type":"invalid_request_error","code":"content_policy_violation"}}`},
	{dialect: gateway.Anthropic, path: "/v1/messages", body: streamedMsg, answers: messages, stream: messageStream,
		finish: messageEnd[:2], marker: "event: message_stop",
		busy:     `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		tooLong:  `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`,
		filtered: `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`},
}

// sixty is an answer of sixty tokens; the first n of them are its beginning.
func sixty(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("a%d", i)
	}
	return strings.Join(words, " ")
}

// fault is one run: a primary that fails, a fallback, and a gateway.
type fault struct {
	tongue
	*front
	a, b  *upstream
	whole bool
}

// everyWay runs a test in both dialects and both ways of handing answers on.
func everyWay(t *testing.T, cfg gateway.Config, policy func(string) fusebox.Policy, run func(*testing.T, *fault)) {
	t.Helper()
	for _, speech := range tongues {
		for _, way := range []string{"pass", "whole"} {
			t.Run(string(speech.dialect)+"/"+way, func(t *testing.T) {
				t.Parallel()
				run(t, newFault(t, speech, way, gateway.Timeouts{}, cfg, policy))
			})
		}
	}
}

// everyWayWithin is everyWay in bubbles, with limits for both backends.
func everyWayWithin(t *testing.T, limits gateway.Timeouts, cfg gateway.Config, run func(*testing.T, *fault)) {
	t.Helper()
	for _, speech := range tongues {
		for _, way := range []string{"pass", "whole"} {
			t.Run(string(speech.dialect)+"/"+way, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { run(t, newFault(t, speech, way, limits, cfg, nil)) })
			})
		}
	}
}

func newFault(t *testing.T, speech tongue, way string, limits gateway.Timeouts, cfg gateway.Config, policy func(string) fusebox.Policy) *fault {
	t.Helper()
	f := &fault{tongue: speech, whole: way == "whole"}
	f.a, f.b = newUpstream(t, "a", nil), newUpstream(t, "b", speech.answers("from b"))
	for _, u := range []*upstream{f.a, f.b} {
		b := u.backend()
		b.Dialect, b.Timeouts = speech.dialect, limits
		cfg.Backends = append(cfg.Backends, b)
	}
	cfg.Backends[1].Models = map[string]string{"*": "m-of-b"}
	cfg.Routes = []gateway.Route{{Match: "*", Backends: gateway.InOrder("a", "b"), Answers: way}}
	if cfg.Retry == (fusebox.Retry{}) {
		cfg.Retry = fusebox.Retry{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond, Budget: fusebox.Budget{PerMinute: 1000}}
	}
	f.front = newFront(t, policy, cfg)
	return f
}

func (f *fault) ask(t *testing.T) answer {
	t.Helper()
	return f.post(t, f.path, f.body)
}

// isWhole requires the whole answer of a backend, and nothing else.
func (f *fault) isWhole(t *testing.T, got answer, backend, text string) {
	t.Helper()
	if got.err != nil || got.status != 200 || got.header.Get("Fusebox-Backend") != backend || got.text(t) != text {
		t.Fatalf("want the whole answer of %s, have %d by %q, error %v: %s", backend, got.status, got.header.Get("Fusebox-Backend"), got.err, got.body)
	}
}

// isHonest requires the fallback's whole answer with whole answers, else that
// the caller was told that what it has is not the whole.
func (f *fault) isHonest(t *testing.T, got answer) {
	t.Helper()
	if f.whole {
		f.isWhole(t, got, "b", "from b")
		return
	}
	events := strings.Split(strings.TrimSpace(got.body), "\n\n")
	if got.err == nil || !strings.Contains(events[len(events)-1], `"error"`) || strings.Contains(got.body, f.marker) {
		t.Fatalf("a cut answer looks like the whole, error %v: %s", got.err, got.body)
	}
}

// asked requires how often the primary and the fallback were asked.
func (f *fault) asked(t *testing.T, a, b int) {
	t.Helper()
	if f.a.hits() != a || f.b.hits() != b {
		t.Fatalf("a was asked %d times, b %d; want %d and %d", f.a.hits(), f.b.hits(), a, b)
	}
}

func TestS01_A429IsLeftAloneAsLongAsItSays(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(status(429, `{"error":{"message":"slow","type":"rate_limit_error"}}`, "Retry-After", "2"))
		f.isWhole(t, f.ask(t), "b", "from b")
		f.a.does(f.answers("from a"))
		eventually(t, "a to be asked again", func() bool {
			got := f.ask(t)
			f.isWhole(t, got, got.header.Get("Fusebox-Backend"), "from "+got.header.Get("Fusebox-Backend"))
			return f.a.hits() > 1
		})
		if at := f.a.times(); len(at) != 2 || at[1].Sub(at[0]) < 1800*time.Millisecond {
			t.Fatalf("a was asked at %v", at)
		}
	})
}

func TestS02_A429ForEverIsNotHammered(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(status(429, `{"error":{"message":"slow","type":"rate_limit_error"}}`))
		asked := 0
		eventually(t, "a to be asked for the third time", func() bool {
			f.isWhole(t, f.ask(t), "b", "from b")
			asked++
			return f.a.hits() == 3
		})
		// It did not say for how long: a second, then two. That is 3 attempts in 3 s.
		if at := f.a.times(); at[1].Sub(at[0]) < 900*time.Millisecond || at[2].Sub(at[1]) < 1900*time.Millisecond {
			t.Fatalf("a was asked at %v", at)
		}
		f.asked(t, 3, asked)
	})
}

func TestS03_OneServerErrorIsMendedOnTheSameBackend(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(func(w http.ResponseWriter, r *http.Request) {
			f.a.does(f.answers("from a"))
			status(500, `{"error":{"message":"oops"}}`)(w, r)
		})
		f.isWhole(t, f.ask(t), "a", "from a")
		f.asked(t, 2, 0)
	})
}

func TestS04_A503ForEverCostsFewAttempts(t *testing.T) {
	everyWay(t, gateway.Config{}, trips(3, time.Hour), func(t *testing.T, f *fault) {
		f.a.does(status(503, f.busy))
		for range 10 {
			f.isWhole(t, f.ask(t), "b", "from b")
		}
		f.asked(t, 6, 10) // two attempts for each of the three visits that open the circuit
	})
}

func TestS05_AResetBeforeTheHeaderIsMended(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(reset)
		f.isWhole(t, f.ask(t), "b", "from b")
		if n := f.a.hits(); n < 2 || n > 4 || f.b.hits() != 1 { // a connection that dies unused is redialled once by net/http
			t.Fatalf("a was asked %d times, b %d", n, f.b.hits())
		}
	})
}

func TestS06_WhoNeverAnswersIsAskedOnce(t *testing.T) {
	everyWayWithin(t, gateway.Timeouts{Headers: tick}, gateway.Config{}, func(t *testing.T, f *fault) {
		f.a.does(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		f.b.does(f.answers("from b"))
		f.isWhole(t, f.ask(t), "b", "from b")
		f.asked(t, 1, 1)
	})
}

func TestS07_ALateFirstTokenIsNotWaitedFor(t *testing.T) {
	everyWayWithin(t, gateway.Timeouts{FirstToken: tick}, gateway.Config{KeepAlive: tick / 20}, func(t *testing.T, f *fault) {
		f.a.does(f.stream("", "hang"))
		got := f.ask(t)
		if f.whole { // the comments that the client was sent meanwhile are no progress
			got.header.Set("Fusebox-Backend", got.trailer.Get("Fusebox-Backend"))
		}
		f.isWhole(t, got, "b", "from b")
		f.asked(t, 1, 1)
	})
}

func TestS08_AStreamThatDiesIsNeverTakenForTheWhole(t *testing.T) {
	for _, death := range []string{"reset", "abort", ": the end comes early"} {
		t.Run(death, func(t *testing.T) {
			everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
				f.a.does(f.stream(sixty(40), death))
				f.isHonest(t, f.ask(t))
				if f.whole {
					f.asked(t, 2, 1)
				} else {
					f.asked(t, 1, 0)
				}
				if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != fusebox.ClassStream {
					t.Fatalf("a has %d failures, the last %q", s.Failures, s.LastClass)
				}
			})
		})
	}
}

func TestS09_SilenceAfterTwentyTokensIsNoticed(t *testing.T) {
	everyWayWithin(t, gateway.Timeouts{Idle: 2 * tick}, gateway.Config{}, func(t *testing.T, f *fault) {
		f.a.does(f.stream(sixty(20), "hang"))
		f.isHonest(t, f.ask(t))
		if f.whole { // who fell silent is not asked again
			f.asked(t, 1, 1)
		} else {
			f.asked(t, 1, 0)
		}
		if s := f.status(t, "model/a/m"); s.Failures != 1 || s.LastClass != fusebox.ClassStall || f.a.hits() != 1 {
			t.Fatalf("a has %d failures, the last %q, and was asked %d times", s.Failures, s.LastClass, f.a.hits())
		}
		f.a.does(f.answers("from a"))
		f.isWhole(t, f.ask(t), "a", "from a")
	})
}

func TestS10_AnEventThatIsNotJSONIsNoPartOfAnAnswer(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(f.stream(sixty(9), `data: {"choices":[{"delta":{"content":"torn`, "finish", "done"))
		got := f.ask(t)
		f.isHonest(t, got)
		if strings.Contains(got.body, "torn") {
			t.Fatalf("the client has what is not JSON: %s", got.body)
		}
		if f.whole {
			f.asked(t, 2, 1)
		} else {
			f.asked(t, 1, 0)
		}
	})
}

func TestS11_AnAnswerWithoutItsEndMarkerIsFinishedPromptly(t *testing.T) {
	everyWayWithin(t, gateway.Timeouts{}, gateway.Config{}, func(t *testing.T, f *fault) {
		for _, end := range []string{"closes", "hang"} {
			steps := f.finish
			if end == "hang" {
				steps = append(steps[:len(steps):len(steps)], end)
			}
			f.a.does(f.stream(sixty(60), steps...))
			began := time.Now()
			got := f.ask(t)
			f.isWhole(t, got, "a", sixty(60))
			if took := time.Since(began); took > 2*time.Second || !strings.Contains(got.body, `"usage":{`) {
				t.Fatalf("%s: after %v: %s", end, took, got.body)
			}
		}
		f.asked(t, 2, 0)
		if s := f.status(t, "model/a/m"); s.Failures != 0 {
			t.Fatalf("a has %d failures", s.Failures)
		}
	})
}

func TestS12_AContextThatIsTooLongIsAskedOnceOfEach(t *testing.T) {
	everyWay(t, gateway.Config{}, trips(1, time.Hour), func(t *testing.T, f *fault) {
		f.a.does(status(400, f.tooLong))
		f.isWhole(t, f.ask(t), "b", "from b")
		f.asked(t, 1, 1)
		f.b.does(status(400, f.tooLong))
		if got := f.ask(t); got.status != 400 || got.body != f.tooLong {
			t.Fatalf("want the provider's reason, have %d: %s", got.status, got.body)
		}
		f.asked(t, 2, 2)
		for _, circuit := range []string{"model/a/m", "model/b/m-of-b"} {
			if s := f.status(t, circuit); s.Failures != 0 || s.Phase != fusebox.Closed {
				t.Fatalf("%s is %v with %d failures", circuit, s.Phase, s.Failures)
			}
		}
	})
}

func TestS13_AFilteredAnswerIsAskedForOnce(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(status(400, f.filtered))
		if got := f.ask(t); got.status != 400 || got.body != f.filtered {
			t.Fatalf("want the provider's reason, have %d: %s", got.status, got.body)
		}
		f.asked(t, 1, 0)
		if s := f.status(t, "model/a/m"); s.Failures != 0 {
			t.Fatal("a filter counts as a failure")
		}
	})
}

// The fallback is asked what the client asked, without what the primary had
// said of the answer: one that rejects a prefill has nothing to reject.
func TestS14_TheFallbackIsSentNoPrefill(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(f.stream(sixty(40), "abort"))
		f.b.does(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(lastBody(r), `"assistant"`) {
				status(400, `{"error":{"type":"invalid_request_error","message":"prefill is not supported"}}`)(w, r)
				return
			}
			f.answers("from b")(w, r)
		})
		got := f.ask(t)
		f.isHonest(t, got)
		if strings.Contains(got.body, "prefill") || f.whole && f.b.last().body != strings.Replace(f.body, `"m"`, `"m-of-b"`, 1) {
			t.Fatalf("b was sent %s", f.b.last().body)
		}
		if f.whole {
			f.asked(t, 2, 1)
		} else {
			f.asked(t, 1, 0)
		}
	})
}

func TestS15_AnOutageCostsThePrimaryFewAttempts(t *testing.T) {
	const cooldown = 200 * time.Millisecond
	everyWay(t, gateway.Config{Retry: fusebox.Retry{Attempts: 1}}, trips(3, cooldown), func(t *testing.T, f *fault) {
		f.a.does(status(503, f.busy))
		for outage := time.Now(); time.Since(outage) < 5*cooldown; {
			f.isWhole(t, f.ask(t), "b", "from b")
		}
		eventually(t, "a probe", func() bool {
			f.isWhole(t, f.ask(t), "b", "from b")
			return f.a.hits() > 3
		})
		at := f.a.times()
		for i := 3; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < cooldown*9/10 {
				t.Fatalf("probe %d came %v after the call before it", i-2, gap)
			}
		}
		f.a.does(f.answers("from a"))
		eventually(t, "the primary to be back", func() bool {
			got := f.ask(t)
			by := got.header.Get("Fusebox-Backend")
			f.isWhole(t, got, by, "from "+by)
			return by == "a"
		})
	})
}

func TestS16_ModelAndUsageAreThoseOfTheBackendThatAnswered(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		f.a.does(status(503, f.busy))
		f.b.does(f.stream("from b", append(f.finish[:len(f.finish):len(f.finish)], "done")...))
		got := f.ask(t)
		f.isWhole(t, got, "b", "from b")
		if !strings.Contains(got.body, `"model":"m-of-b"`) || !strings.Contains(got.body, `"usage":{`) {
			t.Fatalf("want b's model and usage, have %s", got.body)
		}
		f.asked(t, 2, 1)
	})
}
