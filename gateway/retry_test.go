package gateway_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// quick retries without pauses worth the name.
var quick = fusebox.Retry{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond, Budget: fusebox.Budget{PerMinute: 100}}

// once does first for the first call, then the rest.
func once(first, then http.HandlerFunc) http.HandlerFunc {
	var done atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		if done.CompareAndSwap(false, true) {
			first(w, r)
			return
		}
		then(w, r)
	}
}

func retrying(t *testing.T, retry fusebox.Retry, policy func(string) fusebox.Policy, first http.HandlerFunc) (*front, *upstream, *upstream) {
	t.Helper()
	a, b := newUpstream(t, "a", first), newUpstream(t, "b", chats("from b"))
	return newFront(t, policy, gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()}, Retry: retry}), a, b
}

func TestS03S05_OneFailureIsMendedOnTheSameBackend(t *testing.T) {
	for name, fails := range map[string]http.HandlerFunc{
		"a 500": status(500, tooBusy), "a reset": reset, "an error in the stream": chatStream("", `data: {"error":{"message":"x"}}`),
		"a stream cut before its content": chatStream("", "abort"),
	} {
		t.Run(name, func(t *testing.T) {
			f, a, b := retrying(t, quick, nil, once(fails, chats("from a")))
			got := f.post(t, "/v1/chat/completions", streamedChat)
			got.wants(t, 200, "from a", "a", "ok")
			if a.hits() != 2 || b.hits() != 0 || got.header.Get("Fusebox-Attempts") != "2" {
				t.Fatalf("a asked %d times, b %d, attempts %q", a.hits(), b.hits(), got.header.Get("Fusebox-Attempts"))
			}
			if s := f.status(t, "model/a/m"); s.Failures != 0 { // the visit is the unit, and it worked
				t.Fatalf("%d failures", s.Failures)
			}
		})
	}
}

// "unit: attempt" was read, and the gateway counted visits all the same.
func TestAttemptsCountByThemselvesWhereTheyAreTheUnit(t *testing.T) {
	a, b := newUpstream(t, "a", status(500, tooBusy)), newUpstream(t, "b", chats("from b"))
	retry := quick
	retry.Attempts = 5
	f := newFrontOn(t, fusebox.Config{Policy: trips(3, time.Hour), Guard: func(string) fusebox.Guard { return fusebox.Guard{PerAttempt: true} }},
		gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()}, Retry: retry})
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Open || s.Failures != 3 || a.hits() != 3 {
		t.Errorf("%v with %d failures after %d attempts, want it open at the third", s.Phase, s.Failures, a.hits())
	}

	healing, c := newUpstream(t, "a", once(status(500, tooBusy), chats("from a"))), make(chan fusebox.Event, 10)
	f = newFrontOn(t, fusebox.Config{Policy: trips(3, time.Hour), Guard: func(string) fusebox.Guard { return fusebox.Guard{PerAttempt: true} }},
		gateway.Config{Backends: []gateway.Backend{healing.backend()}, Retry: retry})
	defer f.box.OnEvidence(func(e fusebox.Event) { c <- e })()
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	if err := f.box.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []fusebox.Outcome{fusebox.Failure, fusebox.Success} {
		if e := receive(t, "the evidence of an attempt", c); e.Outcome != want || e.Attempts > 1 {
			t.Errorf("%v of %d attempts, want %v of one", e.Outcome, e.Attempts, want)
		}
	}
}

func TestS06_WhoIsSilentIsNotAskedAgain(t *testing.T) {
	a, b := newUpstream(t, "a", nil), newUpstream(t, "b", chats("from b"))
	a.does(a.hang)
	silent := a.backend()
	silent.Timeouts = short
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{silent, b.backend()}, Retry: quick})
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	if a.hits() != 1 {
		t.Fatalf("a was asked %d times", a.hits())
	}
}

func TestTheBudgetBoundsRetries(t *testing.T) {
	retry := quick
	retry.Attempts, retry.Budget = 5, fusebox.Budget{PerMinute: 3}
	f, a, _ := retrying(t, retry, trips(100, time.Hour), status(500, tooBusy))
	for range 10 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if a.hits() != 13 {
		t.Fatalf("a was asked %d times, want 10 visits and 3 retries", a.hits())
	}
}

func TestNoRetryOfAnSDKsRetry(t *testing.T) {
	f, a, _ := retrying(t, quick, nil, status(500, tooBusy))
	f.post(t, "/v1/chat/completions", plainChat, "X-Stainless-Retry-Count", "1").wants(t, 200, "from b", "b", "degraded")
	if a.hits() != 1 {
		t.Fatalf("a was asked %d times", a.hits())
	}
}

// An SDK's own tries make an outage worse, unless there is a throttle to wait
// for: the gateway has made what attempts are worth it.
func TestAnSDKIsToldWhetherToTryAgain(t *testing.T) {
	slow := func(after string) http.HandlerFunc {
		return status(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "Retry-After", after)
	}
	failed := status(500, tooBusy)
	for _, c := range []struct {
		name  string
		a, b  http.HandlerFunc
		code  int
		after int // Retry-After, in seconds, less what the machine takes; 0 = none
		final bool
	}{
		{"both fail, no circuit is open yet", failed, failed, 500, 0, true},
		{"both are throttled for a while", slow("50"), slow("55"), 429, 50, false},
		{"both are throttled for long", slow("120"), slow("600"), 429, 120, true},
		{"both are throttled, and do not say for how long", slow(""), slow(""), 429, 1, false},
		{"one fails, one is throttled for a while", failed, slow("50"), 500, 50, false},
		{"one is throttled for a while, one fails", slow("50"), failed, 500, 50, false},
		{"one fails, one is throttled for long", failed, slow("600"), 500, 0, true},
		{"one says when it is back", status(503, tooBusy, "Retry-After", "50"), failed, 500, 50, false},
		{"both refuse the key", status(401, "{}"), status(401, "{}"), 503, 100, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _, _ := pair(t, trips(5, 100*time.Second), c.a, c.b)
			got := f.post(t, "/v1/chat/completions", plainChat)
			told, after := got.header.Get("X-Should-Retry"), 0
			if text := got.header.Get("Retry-After"); text != "" {
				after, _ = strconv.Atoi(text)
			}
			if got.status != c.code || after > c.after || after < c.after-45 || (told == "false") != c.final || told == "true" {
				t.Fatalf("%d, Retry-After %d, X-Should-Retry %q: %s", got.status, after, told, got.body)
			}
		})
	}
}

func TestACircuitThatOpenedMeanwhileEndsTheRetries(t *testing.T) {
	retry := quick
	retry.Attempts = 5
	f, a, _ := retrying(t, retry, trips(9, time.Hour), nil)
	a.does(func(w http.ResponseWriter, r *http.Request) {
		c, _ := f.box.Circuit("model/a/m")
		c.Trip("by another caller")
		status(500, tooBusy)(w, r)
	})
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	if a.hits() != 1 {
		t.Fatalf("a was asked %d times", a.hits())
	}
}

func TestS01_AShortThrottleCanBeWaitedOut(t *testing.T) {
	retry := quick
	retry.Wait = time.Second
	f, a, _ := retrying(t, retry, nil, once(status(429, `{"error":{}}`, "Retry-After-Ms", "150"), chats("from a")))
	began := time.Now()
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	if waited := time.Since(began); a.hits() != 2 || waited < 150*time.Millisecond {
		t.Fatalf("a asked %d times within %v", a.hits(), waited)
	}
}

// probesNext opens at one failure; after one refusal the next call probes.
func probesNext(string) fusebox.Policy {
	p := trips(1, 0)("")
	p.Cooldown = fusebox.Cooldown{Calls: 1}
	return p
}

func TestI5_AProbeOfTheGatewayAlwaysEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		probe func(t *testing.T, f *front, a *upstream)
		phase fusebox.Phase
	}{
		{"success closes", func(t *testing.T, f *front, a *upstream) {
			a.does(chats("from a"))
			f.post(t, "/v1/chat/completions", streamedChat).wants(t, 200, "from a", "a", "ok")
		}, fusebox.Closed},
		{"a rejected request closes", func(t *testing.T, f *front, a *upstream) {
			a.does(status(400, `{"error":{"message":"x","code":"context_length_exceeded"}}`))
			f.post(t, "/v1/chat/completions", plainChat)
		}, fusebox.Closed},
		{"failure opens, without a retry", func(t *testing.T, f *front, a *upstream) {
			a.does(status(500, tooBusy))
			before := a.hits()
			f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
			if n := a.hits() - before; n != 1 {
				t.Errorf("the probe made %d calls", n)
			}
		}, fusebox.Open},
		{"a stream that breaks opens", func(t *testing.T, f *front, a *upstream) {
			a.does(chatStream("one", "abort"))
			f.post(t, "/v1/chat/completions", streamedChat)
			receive(t, "the request to end", f.noted)
		}, fusebox.Open},
		{"a throttle decides nothing", func(t *testing.T, f *front, a *upstream) {
			a.does(status(429, `{"error":{}}`, "Retry-After-Ms", "20"))
			f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
		}, fusebox.HalfOpen},
		{"a client that leaves decides nothing", func(t *testing.T, f *front, a *upstream) {
			a.does(a.hang)
			f.send(t, a.leaving(t), "POST", "/v1/chat/completions", plainChat)
			receive(t, "the probe's end", a.gone)
			receive(t, "the request to end", f.noted)
		}, fusebox.HalfOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, a, _ := retrying(t, quick, probesNext, status(500, tooBusy))
			for range 2 { // it opens, and refuses once
				f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
				receive(t, "the request to end", f.noted)
			}
			c.probe(t, f, a)
			s := f.status(t, "model/a/m")
			if s.Phase != c.phase || len(s.Probes) != 0 {
				t.Fatalf("%v with %d probes under way, want %v and none", s.Phase, len(s.Probes), c.phase)
			}
			if c.phase == fusebox.Closed {
				return
			}
			a.does(chats("from a"))
			eventually(t, "the next probe to close the circuit", func() bool {
				return f.post(t, "/v1/chat/completions", plainChat).header.Get("Fusebox-Backend") == "a"
			})
		})
	}
}

func TestI3_OneProbeForManyClients(t *testing.T) {
	f, a, _ := retrying(t, quick, probesNext, status(500, tooBusy))
	for range 2 { // it opens, and refuses once
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	before := a.hits()
	a.does(a.hang)
	ctx, cancel := context.WithCancel(t.Context())
	go f.send(t, ctx, "POST", "/v1/chat/completions", plainChat)
	receive(t, "the probe", a.busy)
	for range 20 {
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if n := a.hits() - before; n != 1 {
		t.Errorf("%d calls while one probe was under way", n)
	}
	cancel()
	receive(t, "the probe's end", a.gone)
}

func TestAHeldBackendIsNeverAsked(t *testing.T) {
	f, a, b := retrying(t, quick, nil, chats("from a"))
	for _, name := range []string{"model/a/m", "model/b/m"} {
		c, err := f.box.Circuit(name)
		if err != nil {
			t.Fatal(err)
		}
		c.Hold(fusebox.Open, time.Time{}, "maintenance")
	}
	got := f.post(t, "/v1/chat/completions", plainChat)
	if got.status != 503 || a.hits()+b.hits() != 0 || !strings.Contains(got.body, "held open by an operator") || !strings.Contains(got.body, `"reason":"held"`) {
		t.Fatalf("%d, %d calls: %s", got.status, a.hits()+b.hits(), got.body)
	}
}

func TestARefusalTellsWhatToDoInstead(t *testing.T) {
	a := newUpstream(t, "a", status(503, tooBusy))
	f := newFront(t, trips(1, time.Hour), gateway.Config{Backends: []gateway.Backend{a.anthropic()}})
	f.post(t, "/v1/messages", plainMessage)
	f.post(t, "/v1/messages", plainMessage) // the last resort
	got := f.post(t, "/v1/messages", plainMessage)
	kind, message := got.errorOf(t)
	if after, _ := strconv.Atoi(got.header.Get("Retry-After")); got.status != 503 || kind != "overloaded_error" || after < 3500 ||
		!strings.Contains(message, "a: circuit open") || !strings.Contains(message, "Continue without this model") || strings.Contains(message, "try again") {
		t.Fatalf("%d %s, Retry-After %d: %s", got.status, kind, after, message)
	}
}

// A probe whose answer streams for longer than its lease keeps its slot: no
// other call probes meanwhile, and its end is the verdict.
func TestI4_AProbeKeepsItsSlotWhileItsAnswerFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 300 * time.Millisecond
		policy := func(circuit string) fusebox.Policy {
			p := trips(1, time.Millisecond)(circuit)
			p.Probe.Lease = lease
			return p
		}
		f, a, _ := pair(t, policy, status(500, tooBusy), chats("from b"))
		f.post(t, "/v1/chat/completions", streamedChat).wants(t, 200, "from b", "b", "degraded")
		enough := make(chan struct{})
		a.does(func(w http.ResponseWriter, r *http.Request) {
			chatStream("from")(w, r)
			s, beat := sse{w}, time.NewTicker(lease/20)
			defer beat.Stop()
			for {
				select {
				case <-beat.C:
					s.send(`data: {"choices":[{"index":0,"delta":{"content":"a"}}]}`)
				case <-enough:
					s.then(r, "finish", "done")
					return
				}
			}
		})
		probe := make(chan answer, 1)
		eventually(t, "the cooldown to be over", func() bool { return f.status(t, "model/a/m").RetryAfter == 0 })
		go func() { probe <- f.post(t, "/v1/chat/completions", streamedChat) }()
		began := time.Time{}
		eventually(t, "the lease to be renewed past its length", func() bool {
			probes := f.status(t, "model/a/m").Probes
			if len(probes) == 0 {
				return false
			}
			if began.IsZero() {
				began = probes[0].At
			}
			return probes[0].Until.Sub(began) > 2*lease
		})
		f.post(t, "/v1/chat/completions", streamedChat).wants(t, 200, "from b", "b", "degraded")
		close(enough)
		if got := receive(t, "the probe's answer", probe); got.err != nil || got.header.Get("Fusebox-Backend") != "a" {
			t.Fatalf("the probe: %d by %q, %v", got.status, got.header.Get("Fusebox-Backend"), got.err)
		}
		eventually(t, "a to be closed", func() bool { return f.status(t, "model/a/m").Phase == fusebox.Closed })
		if a.hits() != 2 {
			t.Fatalf("a was asked %d times; want the failure and the probe", a.hits())
		}
	})
}

// A route bounds the attempts of one request over all of its backends: repeats
// on one, the next ones, and a wait for a throttle's end.
func TestARouteBoundsTheAttemptsOfARequest(t *testing.T) {
	for _, test := range []struct {
		name        string
		most        int
		fails       http.HandlerFunc
		a, b, c     int
		status      int
		shouldRetry string
	}{
		{"no bound", 0, status(500, tooBusy), 2, 2, 1, 200, ""},
		{"one", 1, status(500, tooBusy), 1, 0, 0, 500, "false"},
		{"two: the repeat is one", 2, status(500, tooBusy), 2, 0, 0, 500, "false"},
		{"three", 3, status(500, tooBusy), 2, 1, 0, 500, "false"},
		{"more than there are", 9, status(500, tooBusy), 2, 2, 1, 200, ""},
		{"of throttled ones", 2, status(429, tooBusy), 1, 1, 0, 429, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b, c := newUpstream(t, "a", test.fails), newUpstream(t, "b", test.fails), newUpstream(t, "c", chats("from c"))
			f := newFront(t, nil, gateway.Config{Retry: quick,
				Backends: []gateway.Backend{a.backend(), b.backend(), c.backend()},
				Routes:   []gateway.Route{{Match: "*", Backends: gateway.InOrder("a", "b", "c"), Attempts: test.most}}})
			got := f.post(t, "/v1/chat/completions", plainChat)
			if a.hits() != test.a || b.hits() != test.b || c.hits() != test.c {
				t.Errorf("a was asked %d times, b %d, c %d, want %d, %d, %d", a.hits(), b.hits(), c.hits(), test.a, test.b, test.c)
			}
			if got.status != test.status || test.shouldRetry != "" && got.header.Get("x-should-retry") != test.shouldRetry {
				t.Errorf("status %d, x-should-retry %q: %s", got.status, got.header.Get("x-should-retry"), got.body)
			}
		})
	}
	if _, err := gateway.New(gateway.Config{Routes: []gateway.Route{{Match: "*", Attempts: -1}}}); err == nil || !strings.Contains(err.Error(), "attempts: want 0 or more, have -1") {
		t.Errorf("a negative bound: %v", err)
	}
}
