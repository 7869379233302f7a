package gateway_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// shared serves a gateway over upstreams a, b and c, of which a has weight 2
// and the others 1, and d behind them.
func shared(t *testing.T, policy func(string) fusebox.Policy, change func(*gateway.Config)) (f *front, ups map[string]*upstream) {
	t.Helper()
	ups = map[string]*upstream{}
	cfg := gateway.Config{}
	for _, name := range []string{"a", "b", "c", "d"} {
		ups[name] = newUpstream(t, name, chats("from "+name))
		cfg.Backends = append(cfg.Backends, ups[name].backend())
	}
	cfg.Routes = []gateway.Route{{Match: "*", Backends: []gateway.RouteBackend{{"a", 1, 2}, {"b", 1, 1}, {"c", 1, 1}, {"d", 2, 1}}}}
	if change != nil {
		change(&cfg)
	}
	return newFront(t, policy, cfg), ups
}

// serve serves a gateway that is made already.
func serve(t *testing.T, g *gateway.Gateway) *front {
	t.Helper()
	f := &front{Server: httptest.NewServer(g)}
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// answerers asks n times, and returns who answered.
func (f *front) answerers(t *testing.T, n int, body string) string {
	t.Helper()
	var who strings.Builder
	for range n {
		got := f.post(t, "/v1/chat/completions", body)
		if got.status != 200 || got.err != nil {
			t.Fatalf("%d %s, %v", got.status, got.body, got.err)
		}
		who.WriteString(got.header.Get("Fusebox-Backend") + got.trailer.Get("Fusebox-Backend"))
	}
	return who.String()
}

func (f *front) circuit(t *testing.T, name string) *fusebox.Circuit {
	t.Helper()
	c, err := f.box.Circuit(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWeightsAreExact(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gateway.Config)
		body   string
	}{
		"plain":    {nil, plainChat},
		"streamed": {nil, streamedChat},
		"whole":    {func(cfg *gateway.Config) { cfg.Routes[0].Answers = "whole" }, streamedChat},
	} {
		t.Run(name, func(t *testing.T) {
			f, ups := shared(t, nil, c.change)
			if got := f.answerers(t, 12, c.body); got != "abcaabcaabca" {
				t.Errorf("answered by %s", got)
			}
			if ups["a"].hits() != 6 || ups["b"].hits() != 3 || ups["c"].hits() != 3 || ups["d"].hits() != 0 {
				t.Errorf("asked %d, %d, %d and %d times", ups["a"].hits(), ups["b"].hits(), ups["c"].hits(), ups["d"].hits())
			}
		})
	}
}

func TestTheShareOfABackendThatIsOutGoesToTheRest(t *testing.T) {
	f, ups := shared(t, nil, nil)
	f.circuit(t, "model/a/m").Trip("bad release")
	if got := f.answerers(t, 12, plainChat); got != "bcbcbcbcbcbc" {
		t.Errorf("without a: %s", got)
	}
	f.circuit(t, "model/b/m").Throttle(time.Now().Add(time.Hour), "invoice")
	if got := f.answerers(t, 3, plainChat); got != "ccc" {
		t.Errorf("without a and b: %s", got)
	}
	f.circuit(t, "model/c/m").Trip("bad release")
	if got := f.post(t, "/v1/chat/completions", plainChat); got.header.Get("Fusebox-Backend") != "d" || got.header.Get("Fusebox-Outcome") != "degraded" {
		t.Errorf("without all three: %v", got.header)
	}
	if ups["a"].hits() != 0 {
		t.Errorf("a was asked %d times while it was out", ups["a"].hits())
	}
	for _, name := range []string{"model/a/m", "model/b/m", "model/c/m"} {
		f.circuit(t, name).Reset("mended")
	}
	f.circuit(t, "model/b/m").Throttle(time.Time{}, "paid")
	if got := f.answerers(t, 8, plainChat); strings.Count(got, "a") != 4 || strings.Count(got, "b") != 2 || strings.Count(got, "c") != 2 {
		t.Errorf("with all again: %s", got)
	}
}

// A backend that fails is asked by its weight until its circuit opens; each
// failure goes to another of the same priority, which is no worse a choice.
func TestAFailureGoesToTheSamePriorityFirst(t *testing.T) {
	f, ups := shared(t, trips(3, time.Hour), nil)
	ups["a"].does(status(500, `{}`))
	for range 12 {
		if got := f.post(t, "/v1/chat/completions", plainChat); got.status != 200 || got.header.Get("Fusebox-Outcome") != "ok" {
			t.Fatalf("%d %v %s", got.status, got.header, got.body)
		}
	}
	if a, b, c, d := ups["a"].hits(), ups["b"].hits(), ups["c"].hits(), ups["d"].hits(); a != 3 || b+c != 12 || max(b, c) > 7 || d != 0 {
		t.Errorf("asked %d, %d, %d and %d times", a, b, c, d)
	}
}

func TestOneProbeOfAWeightedBackendAtATime(t *testing.T) {
	f, ups := shared(t, trips(1, time.Millisecond), nil)
	a := ups["a"]
	f.circuit(t, "model/a/m").Trip("bad release")
	a.does(a.hang)
	eventually(t, "the cooldown", func() bool { s := f.circuit(t, "model/a/m").State(); return s.Decide(time.Now()).Probe })
	ended := make(chan answer, 1)
	go func() { ended <- f.post(t, "/v1/chat/completions", plainChat) }()
	receive(t, "the probe to be under way", a.busy)
	if got := f.answerers(t, 6, plainChat); got != "bcbcbc" {
		t.Errorf("beside the probe: %s", got)
	}
	a.does(chats("from a"))
	a.CloseClientConnections() // the probe fails, and goes to another
	if got := receive(t, "the probe's answer", ended); got.status != 200 {
		t.Errorf("the probe: %d %s", got.status, got.body)
	}
	eventually(t, "the next probe to close a", func() bool { return strings.Contains(f.answerers(t, 4, plainChat), "a") })
	if got := f.answerers(t, 8, plainChat); strings.Count(got, "a") != 4 {
		t.Errorf("with a again: %s", got)
	}
}

func TestAWholeAnswerIsMendedByTheSamePriority(t *testing.T) {
	f, ups := shared(t, trips(9, time.Hour), func(cfg *gateway.Config) { cfg.Routes[0].Answers = "whole" })
	ups["a"].does(chatStream("tokens of a", "reset"))
	for range 4 {
		if got := f.post(t, "/v1/chat/completions", streamedChat); got.err != nil || strings.Contains(got.text(t), "tokens of a") || got.header.Get("Fusebox-Outcome") != "ok" {
			t.Fatalf("%v %v: %s", got.err, got.header, got.body)
		}
	}
	if ups["a"].hits() != 2 || ups["d"].hits() != 0 {
		t.Errorf("a was asked %d times, d %d", ups["a"].hits(), ups["d"].hits())
	}
}

// Where only one of a priority speaks the request's dialect, it has all of the
// share; the weights of the others are not its.
func TestWeightsAreWithinADialect(t *testing.T) {
	f, ups := shared(t, nil, func(cfg *gateway.Config) { cfg.Backends[0].Dialect = gateway.Anthropic })
	if got := f.answerers(t, 4, plainChat); got != "bcbc" || ups["a"].hits() != 0 {
		t.Errorf("answered by %s", got)
	}
}

// A gateway that takes the place of another grants nothing twice: visits of the
// last minute count against its limits, and weights go on where they were.
func TestTakingOverLosesNothing(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	a, b := newUpstream(t, "a", chats("from a")), newUpstream(t, "b", chats("from b"))
	a.does(a.hang)
	another := func(weight int, limit gateway.Limit) *gateway.Gateway {
		limited := a.backend()
		limited.Limit = limit
		g, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{limited, b.backend()},
			Routes: []gateway.Route{{Match: "*", Backends: []gateway.RouteBackend{{"b", 1, weight}, {"a", 1, 1}}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return g
	}
	first := another(3, gateway.Limit{Concurrent: 1})
	f := serve(t, first)
	if got := f.answerers(t, 2, plainChat); got != "bb" {
		t.Fatalf("answered by %s", got)
	}
	ended := make(chan answer, 1)
	go func() { ended <- f.post(t, "/v1/chat/completions", plainChat) }()
	receive(t, "a to be busy", a.busy)

	same := another(3, gateway.Limit{Concurrent: 1})
	same.TakeOver(first)
	g := serve(t, same)
	if got := g.answerers(t, 5, plainChat); got != "bbbbb" { // a's share too: it is busy
		t.Errorf("after the change: %s", got)
	}
	wider := another(3, gateway.Limit{Concurrent: 2})
	wider.TakeOver(same)
	a.does(chats("from a"))
	if got := serve(t, wider).answerers(t, 4, plainChat); strings.Count(got, "a") != 1 {
		t.Errorf("with room for one more: %s", got)
	}
	other := another(1, gateway.Limit{Concurrent: 2})
	other.TakeOver(wider)
	if got := serve(t, other).answerers(t, 4, plainChat); got != "baba" {
		t.Errorf("by other weights: %s", got)
	}
	a.CloseClientConnections()
	if got := receive(t, "the first answer", ended); got.status != 200 {
		t.Errorf("the request that began before: %d %s", got.status, got.body)
	}
	narrow := another(1, gateway.Limit{PerMinute: 1})
	narrow.TakeOver(other)
	h := serve(t, narrow)
	if got := h.answerers(t, 2, plainChat); got != "ba" {
		t.Errorf("by a limit a minute: %s", got)
	}
	again := another(1, gateway.Limit{PerMinute: 1})
	again.TakeOver(narrow)
	if got := serve(t, again).answerers(t, 2, plainChat); got != "bb" {
		t.Errorf("the same minute under another gateway: %s", got)
	}
}
