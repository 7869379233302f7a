package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
	"github.com/fusebox-go/fusebox/gateway"
)

// pace is how often tests check.
const pace = 20 * time.Millisecond

// run runs a gateway beside its requests until the test ends, or stop is called.
func run(t *testing.T, g *gateway.Gateway, store fusebox.Sharer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { g.Run(ctx, store) })
	stop = func() {
		cancel()
		ended.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// checked is the upstream as a backend that is checked often.
func (u *upstream) checked(probe bool) gateway.Backend {
	b := u.backend()
	b.Check = gateway.ActiveCheck{Every: pace, Probe: probe}
	return b
}

// chatting answers checks and model calls each in its own way.
func chatting(checks, calls http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			checks(w, r)
		} else {
			calls(w, r)
		}
	}
}

// asked counts the checks and the calls that the upstream was sent.
func (u *upstream) asked(t *testing.T) (checks, calls int) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		if c.body == "" {
			checks++
		} else {
			calls++
		}
	}
	return checks, calls
}

// moreChecks waits for two more checks: the second began after the call of this.
func (u *upstream) moreChecks(t *testing.T) {
	t.Helper()
	before, _ := u.asked(t)
	eventually(t, "two more checks", func() bool { now, _ := u.asked(t); return now >= before+2 })
}

func TestChecksTellTheHealthBeforeAnyTraffic(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	b := a.checked(false)
	b.Check.Path, b.Key, b.KeyName = "/health", func() string { return "k" }, "A_KEY"
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{b}})
	a.does(status(204, ""))
	run(t, f.gateway, nil)
	eventually(t, "health to be known", func() bool { return f.status(t, "check/a").Health == fusebox.Up })
	if got := a.last(); got.path != "/v1/health" || got.header.Get("Authorization") != "Bearer k" || got.body != "" {
		t.Errorf("asked %s with %v and %q", got.path, got.header, got.body)
	}
	if s := f.status(t, "model/a/m"); s.Health != fusebox.Unknown {
		t.Errorf("what checks show is no evidence of a model: %+v", s)
	}
}

func TestNobodyIsCheckedByDefault(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}})
	f.gateway.Run(t.Context(), nil) // returns: there is nothing to do
	if a.hits() != 0 {
		t.Errorf("asked %d times", a.hits())
	}
}

func TestWhatACheckShows(t *testing.T) {
	for name, c := range map[string]struct {
		behave http.HandlerFunc // nil = nobody listens
		key    string
		down   string // the circuit that opens; "" = none does
	}{
		"an answer":                  {status(200, `{}`), "", ""},
		"no such path":               {status(404, `{}`), "", ""},
		"a key is wanted":            {status(401, `{"error":{"code":"invalid_api_key"}}`), "", ""},
		"the key is refused":         {status(401, `{"error":{"code":"invalid_api_key"}}`), "A_KEY", "credential/a_key"},
		"it answers that it is down": {status(503, `{}`), "", "check/a"},
		"it takes too long":          {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "", "check/a"},
		"nobody listens":             {nil, "", "check/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newUpstream(t, "a", c.behave)
			b := a.checked(false)
			if c.key != "" {
				b.Key, b.KeyName = func() string { return "k" }, c.key
			}
			if c.behave == nil {
				b.URL = gateway.Nobody(t)
			} else if name == "it takes too long" {
				b.Check.Timeout = pace
			}
			f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{b}})
			run(t, f.gateway, nil)
			if c.down == "" {
				a.moreChecks(t)
				a.moreChecks(t)
				if s := f.status(t, "check/a"); s.Health != fusebox.Up || s.Failures != 0 {
					t.Errorf("%+v", s)
				}
				return
			}
			eventually(t, c.down+" to open", func() bool { return f.status(t, c.down).Health == fusebox.Down })
			if s := f.status(t, "model/a/m"); s.Health != fusebox.Unknown {
				t.Errorf("the model: %+v", s)
			}
		})
	}
}

// A model that fails, at a backend that answers checks all the while: each check
// would reset a streak if it were the same circuit's evidence.
func TestAnAnsweredCheckErasesNoFailure(t *testing.T) {
	a := newUpstream(t, "a", chatting(status(200, `{}`), status(500, `{}`)))
	f := newFront(t, trips(3, time.Hour), gateway.Config{Backends: []gateway.Backend{a.checked(true)}})
	run(t, f.gateway, nil)
	for n := range 3 {
		if s := f.status(t, "model/a/m"); s.Failures != n {
			t.Fatalf("after %d failures: %+v", n, s)
		}
		f.post(t, "/v1/chat/completions", plainChat)
		a.moreChecks(t)
	}
	if s := f.status(t, "model/a/m"); s.Health != fusebox.Down {
		t.Errorf("after 3 failures in a row, with checks between them: %+v", s)
	}
}

func TestABackendThatCannotBeReachedIsPassedOver(t *testing.T) {
	a, b := newUpstream(t, "a", chatting(status(503, `{}`), chats("from a"))), newUpstream(t, "b", chats("from b"))
	f := newFront(t, func(circuit string) fusebox.Policy {
		p := fusebox.DefaultPolicy(fusebox.Kind(circuit))
		p.Cooldown = fusebox.Cooldown{After: pace}
		return p
	}, gateway.Config{Backends: []gateway.Backend{a.checked(false), b.backend()}})
	run(t, f.gateway, nil)
	eventually(t, "the checks to fail", func() bool { return f.status(t, "check/a").Health == fusebox.Down })
	for range 20 { // also when a cooldown has just ended: that is for a check
		f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	}
	if _, calls := a.asked(t); calls != 0 {
		t.Fatalf("a was called %d times", calls)
	}
	e, err := f.gateway.Explain(gateway.OpenAI, "m")
	if err != nil || e.Choices[0].Usable || !strings.HasPrefix(e.Choices[0].Why, "check/a ") || e.Choices[1].Share != 1 {
		t.Errorf("explained as %+v, %v", e.Choices, err)
	}
	a.does(chats("from a"))
	eventually(t, "a to be back by its checks", func() bool { return f.status(t, "check/a").Health == fusebox.Up })
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

func TestAnOperatorMayHoldTheChecksOpen(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.checked(false)}})
	f.circuit(t, "check/a").Hold(fusebox.Open, time.Time{}, "moving house")
	if got := f.post(t, "/v1/chat/completions", plainChat); got.status != 503 || !strings.Contains(got.body, "held open") {
		t.Errorf("held by an operator: %d %s", got.status, got.body)
	}
}

// A check of the wrong path must not make an outage: where nothing else is left,
// one call tries all the same, and shows that the backend works.
func TestALastResortOverrulesTheChecks(t *testing.T) {
	a := newUpstream(t, "a", chatting(status(503, `{}`), chats("from a")))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.checked(false)}})
	run(t, f.gateway, nil)
	eventually(t, "the checks to fail", func() bool { return f.status(t, "check/a").Health == fusebox.Down })
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

func TestACheckIsTheProbe(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	f := newFront(t, trips(3, pace), gateway.Config{Backends: []gateway.Backend{a.checked(true)}})
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	f.circuit(t, "model/a/m").Trip("bad release")
	run(t, f.gateway, nil)
	eventually(t, "a check to close the circuit", func() bool { return f.status(t, "model/a/m").Phase == fusebox.Closed })
	if _, calls := a.asked(t); calls != 1 {
		t.Errorf("a was called %d times, and once before it opened", calls)
	}
}

func TestACheckIsNoProbeUnlessItIsSaid(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	f := newFront(t, trips(3, time.Millisecond), gateway.Config{Backends: []gateway.Backend{a.checked(false)}})
	f.post(t, "/v1/chat/completions", plainChat)
	f.circuit(t, "model/a/m").Trip("bad release")
	run(t, f.gateway, nil)
	a.moreChecks(t)
	a.moreChecks(t)
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Open {
		t.Errorf("%+v", s)
	}
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok") // a call is
}

// While checks are made, a circuit whose cooldown is over waits for one of them:
// no call is spent on it.
func TestACallWaitsForTheCheckThatProbes(t *testing.T) {
	a, b := newUpstream(t, "a", chats("from a")), newUpstream(t, "b", chats("from b"))
	rare := a.checked(true)
	rare.Check.Every = time.Hour
	f := newFront(t, trips(3, time.Millisecond), gateway.Config{Backends: []gateway.Backend{rare, b.backend()}})
	run(t, f.gateway, nil)
	eventually(t, "the first check", func() bool { return f.status(t, "check/a").Health == fusebox.Up })
	f.circuit(t, "model/a/m").Trip("bad release")
	eventually(t, "the cooldown", func() bool { s := f.circuit(t, "model/a/m").State(); return s.Decide(time.Now()).Probe })
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
	if e, err := f.gateway.Explain(gateway.OpenAI, "m"); err != nil || e.Choices[0].Usable {
		t.Errorf("explained as %+v, %v", e.Choices[0], err)
	}
	if _, calls := a.asked(t); calls != 0 {
		t.Errorf("a was called %d times", calls)
	}
}

// worker is a process of a fleet on a store, whose checks bear its name.
func worker(t *testing.T, name string, store sharingStore, u *upstream, policy fusebox.Policy) (f *front, stop func()) {
	t.Helper()
	b := u.checked(false)
	b.Key, b.KeyName = func() string { return name }, "A_KEY"
	f = newFrontOn(t, fusebox.Config{Store: store, Report: pace, Worker: name, Policy: func(string) fusebox.Policy { return policy }},
		gateway.Config{Backends: []gateway.Backend{b}})
	return f, run(t, f.gateway, store)
}

type sharingStore interface {
	fusebox.Store
	fusebox.Sharer
}

// checksBy counts the checks that the upstream was sent by a worker.
func (u *upstream) checksBy(worker string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		if c.body == "" && c.header.Get("Authorization") == "Bearer "+worker {
			n++
		}
	}
	return n
}

// Processes that share a store check each backend once among them, and what one
// sees all know; when that one ends another goes on.
func TestOneOfAFleetChecks(t *testing.T) {
	dir := t.TempDir()
	open := func() sharingStore {
		store, err := filestore.Open(filestore.Config{Dir: dir, Poll: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	a := newUpstream(t, "a", chats("from a"))
	_, stop := worker(t, "first", open(), a, fusebox.Policy{})
	eventually(t, "a check by the first", func() bool { return a.checksBy("first") > 0 })
	second, _ := worker(t, "second", open(), a, fusebox.Policy{})
	for range 5 {
		a.moreChecks(t)
	}
	if n := a.checksBy("second"); n != 0 {
		t.Errorf("the second checked %d times", n)
	}
	eventually(t, "the second to know what the first saw", func() bool { return second.status(t, "check/a").Health == fusebox.Up })
	stop()
	eventually(t, "the second to go on", func() bool { return a.checksBy("second") > 1 })
}

// A host from which a backend cannot be reached does not condemn it for all: the
// next check is another's.
func TestAFailedCheckIsMadeAgainByAnother(t *testing.T) {
	byWorker := func(good string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer "+good {
				w.WriteHeader(204)
			} else {
				w.WriteHeader(503)
			}
		}
	}
	policy := fusebox.DefaultPolicy("check")
	policy.Cooldown, policy.Quorum = fusebox.Cooldown{After: pace}, 2
	a, store := newUpstream(t, "a", byWorker("second")), fusebox.NewMemory()
	first, _ := worker(t, "first", store, a, policy)
	second, _ := worker(t, "second", store, a, policy)
	eventually(t, "the second to check", func() bool { return a.checksBy("second") > 3 })
	if s := second.status(t, "check/a"); s.Health != fusebox.Up {
		t.Errorf("reached by the second, and yet %+v", s)
	}
	a.does(byWorker("nobody"))
	eventually(t, "both to see that it is down", func() bool {
		return first.status(t, "check/a").Health == fusebox.Down && second.status(t, "check/a").Health == fusebox.Down
	})
	a.does(byWorker("first"))
	eventually(t, "the first to be the one that reaches it", func() bool { return first.status(t, "check/a").Health == fusebox.Up })
}
