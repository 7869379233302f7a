package fusebox_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Names without end that callers made up must not fill the memory, and must not
// push out what is known of a circuit that is open.
func TestI19NamesWithoutEndDoNotFillMemory(t *testing.T) {
	const limit = 1000
	b := newBox(t, fusebox.Config{MaxCircuits: limit, Policy: onePolicy(func(p *fusebox.Policy) { p.Cooldown.After = time.Hour })})
	open := circuit(t, b, "model/broken")
	fail(t, open, 3)
	failing := circuit(t, b, "model/failing")
	fail(t, failing, 2)
	held := circuit(t, b, "model/held")
	if err := held.Hold(fusebox.Closed, time.Time{}, "maintenance"); err != nil {
		t.Fatal(err)
	}

	var before, after runtime.MemStats
	for i := range 50_000 {
		if i == 10_000 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		succeed(t, circuit(t, b, fmt.Sprintf("model/made-up/%d", i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := len(b.Circuits()); n != limit {
		t.Errorf("%d circuits, want %d", n, limit)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	wantPhase(t, circuit(t, b, "model/broken"), fusebox.Open)
	if again := circuit(t, b, "model/broken"); again != open {
		t.Error("the open circuit was forgotten")
	}
	if circuit(t, b, "model/failing") != failing {
		t.Error("a circuit with marks was forgotten")
	}
	if circuit(t, b, "model/held") != held {
		t.Error("a held circuit was forgotten")
	}
}

func TestI19CircuitInUseSurvivesItsEviction(t *testing.T) {
	b := newBox(t, fusebox.Config{MaxCircuits: 2, Policy: onePolicy(nil)})
	mine := circuit(t, b, "model/mine")
	early, err := mine.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		circuit(t, b, fmt.Sprintf("model/%d", i))
	}
	early.Done(fusebox.Result{Outcome: fusebox.Failure}) // admitted before it was forgotten
	fail(t, mine, 2)
	again := circuit(t, b, "model/mine")
	wantPhase(t, mine, fusebox.Open)
	wantPhase(t, again, fusebox.Open)
	if _, err := again.Allow(t.Context()); !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("two circuits of one name: %v", err)
	}
}

func TestBoxFullOfOpenCircuitsRefusesNewNames(t *testing.T) {
	b := newBox(t, fusebox.Config{MaxCircuits: 3, Policy: onePolicy(func(p *fusebox.Policy) { p.Cooldown.After = time.Hour })})
	for i := range 3 {
		fail(t, circuit(t, b, fmt.Sprintf("model/%d", i)), 3)
	}
	if _, err := b.Circuit("model/another"); !errors.Is(err, fusebox.ErrFull) {
		t.Errorf("have %v, want ErrFull", err)
	}
	circuit(t, b, "model/0").Reset("mended")
	circuit(t, b, "model/another")
}

func TestBoxRefusesWhatItCannotUse(t *testing.T) {
	if _, err := fusebox.New(fusebox.Config{MaxCircuits: -1}); err == nil {
		t.Error("a negative number of circuits was accepted")
	}
	b := newBox(t, fusebox.Config{Policy: func(string) fusebox.Policy {
		return fusebox.Policy{Trip: []fusebox.Trip{fusebox.Streak(0)}}
	}})
	if _, err := b.Circuit("model/a"); !errors.Is(err, fusebox.ErrPolicy) || !strings.Contains(err.Error(), "model/a") {
		t.Errorf("have %v, want ErrPolicy that names the circuit", err)
	}
	for _, name := range []string{"", "a\x00b", "../etc/passwd", strings.Repeat("x", 10_000), "a\\b"} {
		if _, err := b.Circuit(name); !errors.Is(err, fusebox.ErrName) {
			t.Errorf("%.20q: have %v, want ErrName", name, err)
		}
	}
}

func TestOneCircuitForEverySpelling(t *testing.T) {
	b := newBox(t, fusebox.Config{})
	c := circuit(t, b, "model/openai/gpt-5")
	for _, name := range []string{"Model/OpenAI/GPT-5", " model/openai/gpt-5 ", "model//openai/gpt-5/"} {
		if circuit(t, b, name) != c {
			t.Errorf("%q is another circuit", name)
		}
	}
}

func BenchmarkIdleCircuitBytes(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		box := newBox(b, fusebox.Config{MaxCircuits: n})
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("model/backend/%d", i)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for _, name := range names {
			circuit(b, box, name)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/circuit")
		runtime.KeepAlive(box)
	}
}

func TestSetPoliciesKeepsWhatIsKnown(t *testing.T) {
	streak := func(n int, cooldown time.Duration) func(string) fusebox.Policy {
		return func(string) fusebox.Policy {
			p := fusebox.DefaultPolicy("model")
			p.Trip, p.Cooldown = []fusebox.Trip{fusebox.Streak(n)}, fusebox.Cooldown{After: cooldown}
			return p
		}
	}
	synctest.Test(t, func(t *testing.T) {
		box, err := fusebox.New(fusebox.Config{Policy: streak(5, time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close(t.Context())
		circuit := func(name string) *fusebox.Circuit {
			c, err := box.Circuit(name)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		fail := func(c *fusebox.Circuit) {
			p, err := c.Allow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer})
		}
		open, counting, idle := circuit("model/a/open"), circuit("model/a/counting"), circuit("model/a/idle")
		for range 5 {
			fail(open)
		}
		fail(counting)
		before := open.Status()
		flying, err := counting.Allow(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		bad := func(name string) fusebox.Policy {
			p := streak(2, time.Minute)(name)
			if name == "model/a/open" {
				p.Cooldown.Jitter = -1
			}
			return p
		}
		if err := box.SetPolicies(bad); !errors.Is(err, fusebox.ErrPolicy) || !strings.Contains(err.Error(), "model/a/open") {
			t.Fatalf("an invalid policy: %v", err)
		}
		if got := counting.Policy(); !got.Equal(streak(5, time.Hour)("")) {
			t.Fatalf("a refused change took effect: %v", got)
		}

		if err := box.SetPolicies(streak(2, time.Minute)); err != nil {
			t.Fatal(err)
		}
		after := open.Status()
		if after.Phase != fusebox.Open || after.RetryAfter != before.RetryAfter || after.Version != before.Version {
			t.Errorf("open before with %v left, in version %d; now %v with %v, %d", before.RetryAfter, before.Version, after.Phase, after.RetryAfter, after.Version)
		}
		if s := counting.Status(); s.Failures != 1 || !s.Policy.Equal(streak(2, time.Minute)("")) {
			t.Errorf("%d failures counted, by %v", s.Failures, s.Policy)
		}
		flying.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer}) // admitted before
		if s := counting.Status(); s.Phase != fusebox.Open || s.RetryAfter != time.Minute {
			t.Errorf("the second failure under the new policy: %v, %v left", s.Phase, s.RetryAfter)
		}
		for range 2 {
			fail(idle)
		}
		if s := idle.Status(); s.Phase != fusebox.Open {
			t.Errorf("a circuit without evidence goes by its old policy: %v", s.Phase)
		}
		for range 2 {
			fail(circuit("model/a/new"))
		}
		if s := circuit("model/a/new").Status(); s.Phase != fusebox.Open {
			t.Errorf("a new circuit goes by the old policies: %v", s.Phase)
		}
	})
}
