package fusebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// once makes retries of the guard itself impossible: a call is one attempt.
var once = fusebox.Retry{Attempts: 1}

// backend is a dependency that counts the calls that reach it.
type backend struct {
	reached map[string]int
	answer  func(id string) error
}

// call makes one call of run r, for one id.
func (b *backend) call(t testing.TB, r *fusebox.Run, c *fusebox.Circuit, id string) error {
	t.Helper()
	_, err := fusebox.Call(t.Context(), r, c, map[string]string{"id": id}, func(context.Context) (string, error) {
		if b.reached == nil {
			b.reached = map[string]int{}
		}
		b.reached[id]++
		return "", b.answer(id)
	})
	return err
}

func alwaysFails(string) error { return errors.New("503 Service Unavailable") }

func alwaysRejects(string) error { return fusebox.Reject(errors.New("no such customer")) }

func TestT1AFailingCallReachesTheServerThreeTimes(t *testing.T) {
	for name, answer := range map[string]func(string) error{"failure": alwaysFails, "rejected": alwaysRejects} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, fusebox.Config{Retry: once})
			crm, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
			be := backend{answer: answer}
			for range 20 {
				be.call(t, r, crm, "4521")
			}
			if be.reached["4521"] != 3 {
				t.Errorf("%d calls reached the server, want 3", be.reached["4521"])
			}
			wantPhase(t, crm, fusebox.Closed)
		})
	}
}

func TestT2APollThatSucceedsIsNeverThrash(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/job/status"), b.Run("r")
	be := backend{answer: func(string) error { return nil }}
	for range 50 {
		if err := be.call(t, r, c, "7"); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Outcome(); got != fusebox.RunComplete {
		t.Errorf("outcome %s, want complete", got)
	}
}

func TestT3ARunThatIgnoresDenialsIsStuckUntilLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once})
		var stuck []fusebox.Notice
		b.OnNotice(func(n fusebox.Notice) {
			if n.Kind == fusebox.NoticeStuck {
				stuck = append(stuck, n)
			}
		})
		crm, other, r := circuit(t, b, "tool/crm/lookup"), circuit(t, b, "tool/search"), b.Run("r")
		be := backend{answer: alwaysRejects}
		for i := range 53 {
			err := be.call(t, r, crm, "4521")
			switch {
			case i < 3 && fusebox.AsDenial(err) != nil, i >= 3 && i < 13 && !errors.Is(err, fusebox.ErrThrash),
				i >= 13 && !errors.Is(err, fusebox.ErrStuck):
				t.Fatalf("call %d: %v", i+1, err)
			}
		}
		fine := backend{answer: func(string) error { return nil }}
		err := fine.call(t, r, other, "x")
		if !errors.Is(err, fusebox.ErrStuck) || !r.Stuck() || r.Outcome() != fusebox.RunFailed {
			t.Fatalf("another tool: %v, stuck %v, outcome %s", err, r.Stuck(), r.Outcome())
		}
		if d := fusebox.AsDenial(err); d.Run() != "r" || d.Circuit() != "tool/search" || d.RetryAfter() <= 9*time.Minute {
			t.Errorf("denial of run %q, circuit %q, retry after %v", d.Run(), d.Circuit(), d.RetryAfter())
		}
		if err := fine.call(t, b.Run("another"), other, "x"); err != nil {
			t.Errorf("T14: another run: %v", err)
		}
		if s := circuit(t, b, fusebox.RunCircuit("r")).Status(); s.Phase != fusebox.Open || s.Denied == 0 {
			t.Errorf("recorded as %+v", s)
		}
		if len(stuck) != 1 || stuck[0].Run != "r" {
			t.Errorf("notices %+v", stuck)
		}

		if err := b.ResetRun("r", "a person looked at it"); err != nil {
			t.Fatal(err)
		}
		if r.Stuck() {
			t.Fatal("still stuck after the reset")
		}
		if err := be.call(t, r, crm, "4521"); fusebox.AsDenial(err) != nil {
			t.Errorf("after the reset: %v", err)
		}
		if got := r.Outcome(); got != fusebox.RunDegraded {
			t.Errorf("outcome after the reset %s, want degraded", got)
		}
	})
}

func TestAStuckRunIsLetGoAfterForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once})
		crm, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
		be := backend{answer: alwaysRejects}
		for range 20 {
			be.call(t, r, crm, "1")
		}
		time.Sleep(10*time.Minute - time.Second)
		if err := be.call(t, r, crm, "2"); !errors.Is(err, fusebox.ErrStuck) {
			t.Fatalf("before the end: %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r.Stuck() {
			t.Error("still stuck")
		}
		for range 3 {
			if err := be.call(t, r, crm, "2"); fusebox.AsDenial(err) != nil {
				t.Fatalf("after forget: %v", err)
			}
		}
	})
}

func TestAStuckRunIsStuckInEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		one := newBox(t, fusebox.Config{Retry: once, Store: store})
		two := newBox(t, fusebox.Config{Retry: once, Store: store})
		be := backend{answer: alwaysRejects}
		mine, theirs := one.Run("r"), two.Run("r")
		crm, search := circuit(t, one, "tool/crm"), circuit(t, two, "tool/search")
		for range 13 {
			be.call(t, mine, crm, "1")
		}
		synctest.Wait()
		if err := be.call(t, theirs, search, "x"); !errors.Is(err, fusebox.ErrStuck) {
			t.Fatalf("the other process: %v", err)
		}
		if err := be.call(t, newBox(t, fusebox.Config{Store: store}).Run("r"), search, "x"); !errors.Is(err, fusebox.ErrStuck) {
			t.Fatalf("a process that starts later: %v", err)
		}
		report, err := fusebox.ReadReport(t.Context(), store)
		if err != nil || len(report.Runs) != 1 || !report.Runs[0].Stuck || report.Runs[0].Outcome != fusebox.RunFailed {
			t.Errorf("status: %+v, %v", report.Runs, err)
		}
		if err := two.ResetRun("r", "over"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := be.call(t, mine, crm, "1"); fusebox.AsDenial(err) != nil {
			t.Errorf("after a reset in the other process: %v", err)
		}
	})
}

// denials makes one denial of every reason, as a run sees it: the first, the
// second and the third of it.
func denials(t *testing.T) map[string][]*fusebox.Denial {
	t.Helper()
	got := map[string][]*fusebox.Denial{}
	times := func(name string, b *fusebox.Box, r *fusebox.Run, c *fusebox.Circuit, args func(i int) string) {
		be := backend{answer: alwaysRejects}
		for i := range 4 {
			err := be.call(t, r, c, args(i))
			d := fusebox.AsDenial(err)
			if d == nil {
				t.Fatalf("%s: no denial but %v", name, err)
			}
			got[name] = append(got[name], d)
		}
	}
	same := func(int) string { return "1" }
	varied := func(i int) string { return fmt.Sprint("v", i) }

	cfg := fusebox.Config{Retry: once, Policy: onePolicy(nil), Thrash: fusebox.DefaultThrash()}
	cfg.Thrash.StopAfter = 0
	b := newBox(t, cfg)
	worked := circuit(t, b, "tool/search")
	for _, name := range []string{"open", "probing", "throttled", "held", "thrash", "same-error"} {
		r := b.Run(name)
		if err := (&backend{answer: func(string) error { return nil }}).call(t, r, worked, "x"); err != nil {
			t.Fatal(err)
		}
		c := circuit(t, b, "tool/crm/"+name)
		advice := errors.New("503 Service Unavailable. Please try again at 1767225600, or retry in 30s")
		be := backend{answer: func(string) error { return fusebox.Fail(fusebox.ClassServer, advice) }}
		args := same
		switch name {
		case "open", "probing":
			for i := range 3 {
				be.call(t, r, c, fmt.Sprint(i))
			}
			args = varied
			if name == "probing" {
				time.Sleep(31 * time.Second)
				synctest.Wait()
				if p, err := c.Allow(t.Context()); err != nil || !p.Probe() {
					t.Fatalf("no probe: %v", err)
				}
			}
		case "throttled":
			c.Throttle(time.Now().Add(time.Minute), "limit")
		case "held":
			if err := c.Hold(fusebox.Open, time.Time{}, "dispute"); err != nil {
				t.Fatal(err)
			}
		case "thrash":
			be.answer = func(string) error { return fusebox.Reject(advice) }
			for range 3 {
				be.call(t, r, c, "1")
			}
		case "same-error":
			be.answer = func(id string) error { return fusebox.Reject(errors.New("no customer " + id)) }
			for i := range 6 {
				be.call(t, r, c, fmt.Sprint(i))
			}
			args = varied
		}
		times(name, b, r, c, args)
	}
	return got
}

func TestT4NoDenialInvitesToRepeatTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := regexp.MustCompile(`(?i)try (it )?again|retry|\b1\d{9}\b|\d{4}-\d\d-\d\dT|%!|<no value>|\{\{`)
		for name, list := range denials(t) {
			for i, d := range list {
				text := d.Instruction()
				t.Logf("%s, %d: %s", name, i+1, text)
				if bad := forbidden.FindString(text); bad != "" {
					t.Errorf("%s, %d: %q in: %s", name, i+1, bad, text)
				}
				if !strings.Contains(text, "crm/") {
					t.Errorf("%s, %d does not name what is refused: %s", name, i+1, text)
				}
				if d.Run() != name {
					t.Errorf("%s: run %q", name, d.Run())
				}
			}
		}
	})
}

func TestT5DenialsVaryThreeTimesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, list := range denials(t) {
			texts := map[string]bool{}
			for _, d := range list[:3] {
				texts[d.Instruction()] = true
			}
			if len(texts) != 3 {
				t.Errorf("%s: %d different texts, want 3", name, len(texts))
			}
			if second := list[1].Instruction(); !strings.Contains(second, "search") {
				t.Errorf("%s: the second does not name what still works: %s", name, second)
			}
		}
	})
}

func TestT6CallsThatDifferInANumberAreDifferentCalls(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/git/merge"), b.Run("r")
	fine := backend{answer: func(string) error { return nil }}
	for i := range 40 {
		if err := fine.call(t, r, c, fmt.Sprint("#", 1390+i)); err != nil {
			t.Fatal(err)
		}
	}
	rejects := backend{answer: alwaysRejects}
	for range 3 {
		for _, id := range []string{"#1395", "#1394"} {
			if err := rejects.call(t, r, c, id); fusebox.AsDenial(err) != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
	}
}

func TestT7AlternatingFailuresAreSeen(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
	be := backend{answer: alwaysRejects}
	for range 5 {
		be.call(t, r, c, "A")
		be.call(t, r, c, "B")
	}
	if be.reached["A"] != 3 || be.reached["B"] != 3 {
		t.Errorf("reached %v, want 3 of each", be.reached)
	}
	if err := be.call(t, r, c, "C"); fusebox.AsDenial(err) != nil {
		t.Errorf("another call: %v", err)
	}
}

func TestT8BadArgumentsLeaveTheToolAlone(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	browse, click := circuit(t, b, "tool/browser/navigate"), circuit(t, b, "tool/browser/click")
	r := b.Run("r")
	be := backend{answer: alwaysRejects}
	for _, url := range []string{"x", "y", "z"} {
		be.call(t, r, browse, url)
	}
	wantPhase(t, browse, fusebox.Closed)
	be.answer = func(string) error { return nil }
	for _, c := range []*fusebox.Circuit{browse, click} {
		if err := be.call(t, r, c, "fine"); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
}

func TestT9ManySignaturesKeepMemoryFlat(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c := circuit(t, b, "tool/crm/lookup")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	rejected := fusebox.Result{Outcome: fusebox.Rejected, Err: errors.New("no such customer")}
	r := b.Run("r")
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			p, err := r.Allow(t.Context(), c, i)
			if err != nil {
				r.Reset("test")
				continue
			}
			p.Done(rejected)
		}
	}
	fill(0, 1000)
	before := heap()
	fill(1000, 20_000)
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestT10LookingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once})
		c, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
		be := backend{answer: alwaysRejects}
		be.call(t, r, c, "1")
		be.call(t, r, c, "1")
		first := r.Status()
		for range 100 {
			b.Runs()
			r.Outcome()
			r.Stuck()
			if got := r.Status(); got != first {
				t.Fatalf("status went from %+v to %+v", first, got)
			}
		}
		be.call(t, r, c, "1")
		if err := be.call(t, r, c, "1"); !errors.Is(err, fusebox.ErrThrash) {
			t.Errorf("the fourth call: %v", err)
		}
	})
}

func TestT12OneRunHasOneName(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	if b.Run("Nightly//7") != b.Run(" nightly/7 ") {
		t.Error("two spellings of one id are two runs")
	}
	odd := []string{"../../etc/passwd", "a b", strings.Repeat("x", 5000), "\xff", "\x00", "/", "run\\x"}
	names := map[string]bool{}
	for _, id := range odd {
		name := fusebox.RunCircuit(id)
		canonical, err := fusebox.CanonicalName(name)
		if err != nil || canonical != name || fusebox.RunCircuit(b.Run(id).ID()) != name {
			t.Errorf("id %.20q: circuit %q, %v", id, name, err)
		}
		names[name] = true
	}
	if len(names) != len(odd) {
		t.Errorf("%d ids have %d names", len(odd), len(names))
	}
	if first, second := b.Run(""), b.Run(""); first == second {
		t.Error("two runs without an id are one")
	}
}

func TestASuccessClearsThatCallOnly(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/crm/lookup"), b.Run("r")
	broken := true
	be := backend{answer: func(id string) error {
		if id == "heals" && !broken {
			return nil
		}
		return alwaysRejects(id)
	}}
	for range 2 {
		be.call(t, r, c, "heals")
		be.call(t, r, c, "stays")
	}
	broken = false
	if err := be.call(t, r, c, "heals"); err != nil {
		t.Fatal(err)
	}
	broken = true
	for range 3 {
		be.call(t, r, c, "heals")
		be.call(t, r, c, "stays")
	}
	if be.reached["heals"] != 6 || be.reached["stays"] != 3 {
		t.Errorf("reached %v, want 6 and 3", be.reached)
	}
}

func TestAClosingCircuitClearsItsToolsCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once, Policy: onePolicy(nil)})
		crm, other, r := circuit(t, b, "tool/crm"), circuit(t, b, "tool/other"), b.Run("r")
		be := backend{answer: alwaysFails}
		for range 3 {
			be.call(t, r, crm, "1")
			(&backend{answer: alwaysRejects}).call(t, r, other, "1")
		}
		wantPhase(t, crm, fusebox.Open)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		be.answer = func(string) error { return nil }
		if err := be.call(t, r, crm, "1"); !errors.Is(err, fusebox.ErrThrash) {
			t.Fatalf("the same call as a probe: %v, want thrash", err)
		}
		if err := be.call(t, r, crm, "2"); err != nil {
			t.Fatalf("another call as the probe: %v", err)
		}
		wantPhase(t, crm, fusebox.Closed)
		if err := be.call(t, r, crm, "1"); err != nil {
			t.Errorf("after the circuit closed: %v", err)
		}
		if err := be.call(t, r, other, "1"); !errors.Is(err, fusebox.ErrThrash) {
			t.Errorf("another tool's counter: %v, want thrash", err)
		}
	})
}

func TestThrashForgetsWhatDidNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once})
		c, r := circuit(t, b, "tool/crm"), b.Run("r")
		be := backend{answer: alwaysRejects}
		for range 5 {
			be.call(t, r, c, "1")
		}
		time.Sleep(10*time.Minute - time.Nanosecond)
		if err := be.call(t, r, c, "1"); !errors.Is(err, fusebox.ErrThrash) {
			t.Fatalf("before forget: %v", err)
		}
		time.Sleep(time.Nanosecond)
		for range 5 {
			be.call(t, r, c, "1")
		}
		if be.reached["1"] != 6 {
			t.Errorf("%d calls reached the tool, want 3 and 3 more", be.reached["1"])
		}
	})
}

func TestCallsInFlightAreNoRepeats(t *testing.T) {
	b := newBox(t, fusebox.Config{})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	rejected := fusebox.Result{Outcome: fusebox.Rejected, Err: errors.New("no")}
	var inFlight []fusebox.RunPermit
	for range 8 {
		p, err := r.Allow(t.Context(), c, 1)
		if err != nil {
			t.Fatal(err)
		}
		inFlight = append(inFlight, p)
	}
	for _, p := range inFlight {
		p.Done(rejected)
		p.Done(rejected) // a second report of one call is no repeat either
	}
	for i := range 3 {
		p, err := r.Allow(t.Context(), c, 1)
		if i == 2 {
			if !errors.Is(err, fusebox.ErrThrash) {
				t.Fatalf("the third repeat: %v, want thrash", err)
			}
			break
		}
		if err != nil {
			t.Fatalf("repeat %d: %v", i+1, err)
		}
		p.Done(rejected)
	}
}

func TestOneErrorOverManyArgumentsIsThrash(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, other, r := circuit(t, b, "tool/crm"), circuit(t, b, "tool/other"), b.Run("r")
	same := backend{answer: func(id string) error {
		return fusebox.Reject(fmt.Errorf("request req_%s0f failed at 12:00:0%s: field 'name' is unknown", id, id))
	}}
	for i := range 6 {
		if err := same.call(t, r, c, fmt.Sprint(i)); fusebox.AsDenial(err) != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	if err := same.call(t, r, c, "7"); !errors.Is(err, fusebox.ErrThrash) {
		t.Errorf("the seventh: %v, want thrash", err)
	}
	if err := same.call(t, r, other, "7"); fusebox.AsDenial(err) != nil {
		t.Errorf("another tool: %v", err)
	}
	if err := same.call(t, b.Run("another"), c, "7"); fusebox.AsDenial(err) != nil {
		t.Errorf("another run: %v", err)
	}
}

func TestDifferentErrorsAreNotOneError(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	words := []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"}
	be := backend{answer: func(id string) error { return fusebox.Reject(errors.New("no field " + id)) }}
	for _, w := range words {
		if err := be.call(t, r, c, w); fusebox.AsDenial(err) != nil {
			t.Fatalf("%s: %v", w, err)
		}
	}
}

func TestStrugglingIsReportedOnceAndMayStopTheRun(t *testing.T) {
	cfg := fusebox.Config{Retry: once, Thrash: fusebox.DefaultThrash()}
	cfg.Thrash.StuckAfterFailures = 15
	b := newBox(t, cfg)
	var mu sync.Mutex
	var kinds []fusebox.NoticeKind
	b.OnNotice(func(n fusebox.Notice) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, n.Kind)
	})
	r := b.Run("r")
	be := backend{answer: alwaysRejects}
	for i := range 16 {
		err := be.call(t, r, circuit(t, b, fmt.Sprintf("tool/t%d", i)), "1")
		if want := i >= 15; errors.Is(err, fusebox.ErrStuck) != want {
			t.Fatalf("call %d: %v", i+1, err)
		}
		if got, want := r.Status().Struggling, i >= 11; got != want {
			t.Errorf("call %d: struggling %v, want %v", i+1, got, want)
		}
	}
	if len(kinds) != 2 || kinds[0] != fusebox.NoticeStruggling || kinds[1] != fusebox.NoticeStuck {
		t.Errorf("notices %v, want struggling and stuck", kinds)
	}
}

func TestThrashSettings(t *testing.T) {
	b := newBox(t, fusebox.Config{
		Retry:  once,
		Thrash: fusebox.Thrash{Ignore: []string{"sent_at"}},
		Guard: func(name string) (g fusebox.Guard) {
			switch name {
			case "tool/calc":
				g.ThrashOff = true
			case "tool/crm/lookup":
				g.Identify = []string{"/id"}
			}
			return g
		},
	})
	sign := func(name, args string) string {
		p, err := b.Run("r").Allow(t.Context(), circuit(t, b, name), json.RawMessage(args))
		if err != nil {
			t.Fatal(err)
		}
		return p.Call()
	}
	if sign("tool/crm/lookup", `{"id":1,"q":"a"}`) != sign("tool/crm/lookup", `{"id":1,"q":"b"}`) {
		t.Error("identify is not heeded")
	}
	if sign("tool/search", `{"id":1,"sentAt":1}`) != sign("tool/search", `{"id":1,"sentAt":2}`) {
		t.Error("ignore is not heeded")
	}
	be := backend{answer: alwaysRejects}
	for i := range 10 {
		if err := be.call(t, b.Run("calc"), circuit(t, b, "tool/calc"), "1"); fusebox.AsDenial(err) != nil {
			t.Fatalf("thrash off, call %d: %v", i+1, err)
		}
	}
}

func TestThrashValidate(t *testing.T) {
	zero := fusebox.Thrash{}
	if err := errors.Join(zero.Validate(), fusebox.DefaultThrash().Validate()); err != nil {
		t.Errorf("zero and default: %v", err)
	}
	tests := map[string]func(*fusebox.Thrash){
		"thrash.repeats":              func(h *fusebox.Thrash) { h.Repeats = 1 },
		"thrash.same_error":           func(h *fusebox.Thrash) { h.SameError = 1 },
		"thrash.stop_after":           func(h *fusebox.Thrash) { h.StopAfter = -1 },
		"thrash.stuck_after_failures": func(h *fusebox.Thrash) { h.StuckAfterFailures = -1 },
		"thrash.forget":               func(h *fusebox.Thrash) { h.Forget = 0 },
	}
	for field, spoil := range tests {
		h := fusebox.DefaultThrash()
		spoil(&h)
		_, err := fusebox.New(fusebox.Config{Thrash: h})
		var policy *fusebox.PolicyError
		if !errors.As(err, &policy) || policy.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestDenialsAreRecordedWithTheToolAndWithTheRun(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	seen := map[string]int{}
	b.OnEvidence(func(e fusebox.Event) {
		if e.Kind == fusebox.KindDenied {
			seen[fmt.Sprintf("%s %s %s", e.Circuit, e.Reason, e.Run)] += max(e.N, 1)
		}
	})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	be := backend{answer: alwaysRejects}
	for range 15 {
		be.call(t, r, c, "1")
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"tool/crm thrash r": 10, "tool/crm stuck r": 2, "run/r thrash ": 10, "run/r stuck ": 2}
	if !maps.Equal(seen, want) {
		t.Errorf("have %v\nwant %v", seen, want)
	}
	if n := c.Status().Denied; n != 0 {
		t.Errorf("the tool's circuit shows %d refusals of its own, want none", n)
	}
}

func TestObserveRefusesNothingAndRecords(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once, Observe: true})
	would := 0
	b.OnEvidence(func(e fusebox.Event) {
		if e.Kind == fusebox.KindDenied && e.Reason == fusebox.ReasonThrash && e.Observed {
			would++
		}
	})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	be := backend{answer: alwaysRejects}
	for range 30 {
		if err := be.call(t, r, c, "1"); fusebox.AsDenial(err) != nil {
			t.Fatal(err)
		}
	}
	if be.reached["1"] != 30 || would != 27 || r.Stuck() {
		t.Errorf("%d calls made, %d would have been refused, stuck %v; want 30, 27, false", be.reached["1"], would, r.Stuck())
	}
}
