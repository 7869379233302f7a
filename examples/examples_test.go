// Package examples_test loads each story's configuration and lets the story
// happen under it.
package examples_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

// load reads an example, which must be without mistakes and warnings.
func load(t *testing.T, name string) *config.Config {
	t.Helper()
	for _, key := range []string{"PROVIDER_API_KEY", "OPENAI_API_KEY"} {
		t.Setenv(key, "a-key")
	}
	c, err := config.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range config.Check(c) {
		t.Errorf("%v", w)
	}
	return c
}

// circuit is a circuit's state and what happens to it.
type circuit struct {
	t      *testing.T
	name   string
	policy fusebox.Policy
	state  fusebox.State
}

func newCircuit(t *testing.T, c *config.Config, name string) *circuit {
	return &circuit{t: t, name: name, policy: c.Policy(name)}
}

func (c *circuit) fold(e fusebox.Event) {
	e.Circuit = c.name
	c.state = fusebox.Fold(c.policy, c.state, e)
}

func (c *circuit) want(phase fusebox.Phase, when string) {
	c.t.Helper()
	if c.state.Phase != phase {
		c.t.Errorf("%s: %s is %v, want %v", when, c.name, c.state.Phase, phase)
	}
}

// grant asks for a probe's lease, and reports whether it was given.
func (c *circuit) grant(token string, t time.Time) bool {
	e := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: token, At: t}
	if lease := c.policy.Probe.Lease; lease > 0 {
		e.Until = t.Add(lease)
	}
	c.fold(e)
	return c.state.HasLease(token)
}

// settle reports the result of the probe that holds token.
func (c *circuit) settle(token string, t time.Time, o fusebox.Outcome) {
	c.fold(fusebox.Event{At: t, Outcome: o, Lease: token, Admitted: true, Version: c.state.Version})
}

func at(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }

// The sessions of one morning, as they ended.
var morning = []struct {
	at      time.Time
	outcome fusebox.Outcome
	took    time.Duration
}{
	{at(12, 1), fusebox.Failure, 5 * time.Second},
	{at(12, 3), fusebox.Failure, 7 * time.Second},
	{at(12, 5), fusebox.Success, 18 * time.Minute},
	{at(12, 9), fusebox.Failure, 6 * time.Second},
	{at(12, 14), fusebox.Success, 11 * time.Minute},
	{at(12, 18), fusebox.Failure, 4 * time.Second},
}

func TestInterleavedSessions(t *testing.T) {
	c := newCircuit(t, load(t, "interleaved-sessions.yaml"), "session/claude")
	for _, s := range morning {
		c.fold(fusebox.Event{At: s.at, Outcome: s.outcome, Elapsed: s.took, Class: fusebox.ClassCrash})
		if s.at.Before(at(12, 9)) {
			c.want(fusebox.Closed, s.at.Format("15:04"))
		} else {
			c.want(fusebox.Open, s.at.Format("15:04"))
		}
	}
	if c.state.Failures != 3 || !c.state.Until.Equal(at(13, 9)) {
		t.Errorf("opened at %d failures until %v, want 3 and an hour", c.state.Failures, c.state.Until)
	}
	if d := c.state.Decide(at(13, 8)); d.Reason != fusebox.ReasonOpen {
		t.Errorf("at 13:08: %+v, want a refusal", d)
	}
	if d := c.state.Decide(at(13, 9)); !d.Probe {
		t.Errorf("at 13:09: %+v, want a probe", d)
	}
}

func TestInterleavedSessionsNeverReachAStreak(t *testing.T) {
	c := newCircuit(t, load(t, "interleaved-sessions.yaml"), "session/claude")
	c.policy.Trip = []fusebox.Trip{fusebox.Streak(3)}
	for _, s := range morning {
		c.fold(fusebox.Event{At: s.at, Outcome: s.outcome, Elapsed: s.took, Class: fusebox.ClassCrash})
		c.want(fusebox.Closed, s.at.Format("15:04"))
	}
}

func TestSlowSessionsAreNoFailuresOfTheBackend(t *testing.T) {
	c := newCircuit(t, load(t, "interleaved-sessions.yaml"), "session/claude")
	for i := range 5 {
		c.fold(fusebox.Event{At: at(12, i), Outcome: fusebox.Failure, Elapsed: 61 * time.Second, Class: fusebox.ClassCrash})
	}
	c.want(fusebox.Closed, "after five slow failures")
}

func TestRetryLoopOfOneCall(t *testing.T) {
	cfg := load(t, "retry-loop.yaml")
	box, err := fusebox.New(fusebox.Config{Policy: cfg.Policy, Guard: cfg.Guard, Thrash: cfg.Thrash, Retry: cfg.Retry})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	tool, err := box.Circuit("tool/crm/lookup")
	if err != nil {
		t.Fatal(err)
	}
	run := box.Run("ticket-1")
	reached := 0
	lookup := func(customer, second int) error {
		args := map[string]any{"customer_id": customer, "timestamp": second}
		_, err := fusebox.Call(t.Context(), run, tool, args, func(context.Context) (string, error) {
			reached++
			return "", fusebox.Reject(errors.New("no such customer"))
		})
		return err
	}
	for second := range 8 {
		err := lookup(4521, second)
		if denied := errors.Is(err, fusebox.ErrThrash); denied != (second >= 3) {
			t.Errorf("call %d: %v", second+1, err)
		}
	}
	if reached != 3 {
		t.Errorf("%d calls reached the CRM, want 3", reached)
	}
	if phase := tool.Status().Phase; phase != fusebox.Closed {
		t.Errorf("the circuit is %v: it never opens for a wrong plan", phase)
	}
	if err := lookup(4522, 9); errors.Is(err, fusebox.ErrThrash) {
		t.Errorf("another customer: %v", err)
	}
}

func TestRetryLoopOfAToolThatIsDown(t *testing.T) {
	cfg := load(t, "retry-loop.yaml")
	fail := func(c *circuit, second int, call string) {
		c.fold(fusebox.Event{At: at(9, 0).Add(time.Duration(second) * time.Second), Outcome: fusebox.Failure,
			Class: fusebox.ClassServer, Run: "run-1", Call: call})
	}

	same := newCircuit(t, cfg, "tool/crm/lookup")
	for i := range 8 {
		fail(same, i, "lookup(4521)")
	}
	same.want(fusebox.Closed, "after one call failed eight times") // one piece of evidence

	c := newCircuit(t, cfg, "tool/crm/lookup")
	fail(c, 0, "lookup(4521)")
	fail(c, 1, "lookup(4522)")
	c.want(fusebox.Closed, "after two calls")
	fail(c, 2, "lookup(4523)")
	c.want(fusebox.Open, "after three calls")
	opened := at(9, 0).Add(2 * time.Second)
	if d := c.state.Decide(opened); d.RetryAfter != 30*time.Second {
		t.Errorf("refused for %v, want 30 s", d.RetryAfter)
	}

	again := opened.Add(30 * time.Second)
	if !c.grant("a", again) || c.grant("b", again) {
		t.Fatal("want exactly one probe")
	}
	c.settle("a", again, fusebox.Failure)
	c.want(fusebox.Open, "after a failed probe")
	if d := c.state.Decide(again); d.RetryAfter != 30*time.Second {
		t.Errorf("refused for %v after a failed probe, want the full 30 s", d.RetryAfter)
	}
	again = again.Add(30 * time.Second)
	c.grant("c", again)
	c.settle("c", again, fusebox.Success)
	c.want(fusebox.Closed, "after a probe that worked")

	if cfg.Settings("tool/calculator/add").Guard {
		t.Error("a calculator is guarded")
	}
}

// outage lets runs happen while the tool fails its first down calls.
func outage(c *circuit, attempts, runs, down int) (calls, denied int, closed []int) {
	for run := 1; run <= runs; run++ {
		now := at(9, run)
		d := c.state.Decide(now)
		if !d.Go && !(d.Probe && c.grant("probe", now)) {
			denied++
			c.fold(fusebox.Event{Kind: fusebox.KindDenied, At: now, N: 1, Reason: d.Reason})
			continue
		}
		outcome := fusebox.Failure
		for range attempts {
			if calls++; calls > down {
				outcome = fusebox.Success
				break
			}
		}
		if d.Probe {
			c.settle("probe", now, outcome)
			if outcome == fusebox.Success {
				closed = append(closed, run)
			}
			continue
		}
		c.fold(fusebox.Event{At: now, Outcome: outcome, Class: fusebox.ClassConnect, Admitted: true, Version: c.state.Version})
	}
	return calls, denied, closed
}

func TestLongOutage(t *testing.T) {
	cfg := load(t, "long-outage.yaml")
	if n := cfg.Policy("tool/reservo/book_room").Probe.Attempts; n != 0 {
		t.Errorf("a probe has %d attempts, want as many as a normal run", n)
	}
	for _, test := range []struct{ down, calls, denied, closed int }{
		{15, 17, 6, 12},
		{12, 17, 4, 9},
	} {
		c := newCircuit(t, cfg, "tool/reservo/book_room")
		calls, denied, closed := outage(c, cfg.Retry.Attempts, 13, test.down)
		if calls != test.calls || denied != test.denied || len(closed) != 1 || closed[0] != test.closed {
			t.Errorf("down for %d calls: %d calls, %d denied, closed in runs %v; want %+v", test.down, calls, denied, closed, test)
		}
		c.want(fusebox.Closed, "after the outage")
	}
}

func TestWorkerFleet(t *testing.T) {
	cfg := load(t, "worker-fleet.yaml")
	if !cfg.Store.Shared() || cfg.Quorum != 2 {
		t.Errorf("store %v, quorum %d", cfg.Store, cfg.Quorum)
	}
	const replicas = 10
	fail := func(c *circuit, second int) {
		c.fold(fusebox.Event{At: at(9, 0).Add(time.Duration(second) * time.Second), Outcome: fusebox.Failure, Class: fusebox.ClassServer})
	}

	// Each for itself: the provider takes the threshold times the replicas.
	reached := 0
	deadlines := map[time.Time]bool{}
	for i := range replicas {
		c := newCircuit(t, cfg, "model/provider/large")
		c.state.Seed = uint64(i + 1)
		for second := 0; c.state.Phase == fusebox.Closed; second++ {
			fail(c, second)
			reached++
		}
		rest := c.state.Until.Sub(c.state.Since)
		if rest < 120*time.Second || rest > 144*time.Second {
			t.Errorf("replica %d rests for %v, want 120 s to 144 s", i, rest)
		}
		deadlines[c.state.Until] = true
	}
	if reached != 30 {
		t.Errorf("%d calls reached the provider, want 30", reached)
	}
	if len(deadlines) != replicas {
		t.Errorf("%d different deadlines, want %d: jitter keeps probes apart", len(deadlines), replicas)
	}

	// Shared: three failures, whoever saw them, and one probe.
	shared := newCircuit(t, cfg, "model/provider/large")
	reached = 0
	for second := 0; shared.state.Phase == fusebox.Closed; second++ {
		fail(shared, second)
		reached++
	}
	if reached != 3 {
		t.Errorf("%d calls reached the provider, want 3", reached)
	}
	now := shared.state.Until
	probes := 0
	for i := range replicas {
		if shared.grant(string(rune('a'+i)), now) {
			probes++
		}
	}
	if probes != 1 {
		t.Errorf("%d probes at once, want 1", probes)
	}

	// A provider that flickers: every third call of the fleet works.
	flickering := newCircuit(t, cfg, "model/provider/large")
	for second := range 10 {
		if second%3 == 2 {
			flickering.fold(fusebox.Event{At: at(9, 0).Add(time.Duration(second) * time.Second), Outcome: fusebox.Success})
			continue
		}
		fail(flickering, second)
	}
	flickering.want(fusebox.Open, "when two of three calls fail")
}

func TestLocalFirst(t *testing.T) {
	cfg := load(t, "local-first.yaml")
	route, ok := cfg.Route("any-model")
	if !ok || len(route.Backends) != 2 || route.Backends[0].Name != "local" || route.Backends[1].Name != "paid" {
		t.Fatalf("route: %+v", route)
	}
	local, _ := cfg.Backend("local")
	name := "model/local/" + local.Model("any-model")
	step := func(c *circuit, second int, o fusebox.Outcome) {
		c.fold(fusebox.Event{At: at(9, 0).Add(time.Duration(second) * time.Second), Outcome: o, Class: fusebox.ClassTimeout})
	}

	c := newCircuit(t, cfg, name)
	if h := c.state.HealthAt(at(9, 0)); h != fusebox.Unknown || !c.state.Decide(at(9, 0)).Go {
		t.Errorf("before any call: %v, want unknown and usable", h)
	}
	step(c, 0, fusebox.Failure)
	c.want(fusebox.Closed, "after the laptop woke up")
	step(c, 1, fusebox.Success)
	step(c, 2, fusebox.Failure)
	c.want(fusebox.Closed, "after a success in between")
	step(c, 3, fusebox.Failure)
	c.want(fusebox.Open, "after two in a row")

	back := at(9, 0).Add(33 * time.Second)
	if c.state.Decide(back.Add(-time.Second)).Probe || !c.grant("a", back) {
		t.Errorf("want the test of the local model 30 s after it opened, have %v", c.state.Until)
	}
	c.settle("a", back, fusebox.Success)
	c.want(fusebox.Closed, "when the local model answers again")
}
