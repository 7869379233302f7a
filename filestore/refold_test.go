package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fusebox-go/fusebox"
)

// workshop is one directory with several stores on it, as several processes
// have, under a clock that the test moves.
type workshop struct {
	*rapid.T
	dir    string
	now    time.Time
	stores []*Store
	leases []string
}

const bench = "tool/crm/lookup"

func newWorkshop(t *rapid.T, dir string, limit int64) *workshop {
	w := &workshop{T: t, dir: dir, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	for range 3 {
		s, err := Open(Config{Dir: dir, Rotate: limit})
		if err != nil {
			t.Fatal(err)
		}
		s.now = func() time.Time { return w.now }
		w.stores = append(w.stores, s)
	}
	return w
}

func (w *workshop) store() *Store { return w.stores[rapid.IntRange(0, 2).Draw(w.T, "process")] }

func (w *workshop) policy() fusebox.Policy {
	p := fusebox.DefaultPolicy("tool")
	p.Quorum = rapid.IntRange(1, 2).Draw(w.T, "quorum")
	switch rapid.IntRange(0, 9).Draw(w.T, "policy") {
	case 0:
		p.Trip = []fusebox.Trip{fusebox.Count(200, time.Hour)}
		p.Distinct = false
	case 1:
		p.Trip = []fusebox.Trip{fusebox.Rate(1.0/3, time.Minute, 5), fusebox.Count(3, time.Minute).Of(7)}
		p.Cooldown = fusebox.Cooldown{After: 3 * time.Second, Jitter: 0.5, Growth: 2, Max: time.Minute}
	case 2:
		p.Trip = []fusebox.Trip{fusebox.Count(100, time.Hour)}
		p.Loaded = w.now
	default:
		return fusebox.Policy{}
	}
	return p
}

// at is about now: mostly a little before, now and then in the future.
func (w *workshop) at() time.Time {
	return w.now.Add(time.Duration(rapid.IntRange(-5000, 400).Draw(w.T, "at")) * time.Millisecond)
}

func (w *workshop) event() fusebox.Event {
	e := fusebox.Event{At: w.at(), Worker: rapid.SampledFrom([]string{"a:1", "a:2", "b:2"}).Draw(w.T, "worker"), Run: "r"}
	switch rapid.IntRange(0, 15).Draw(w.T, "event") {
	case 0:
		e.Outcome, e.N, e.Since = fusebox.Success, 3, e.At.Add(-time.Second)
	case 1:
		e.Outcome, e.Until = fusebox.Throttled, w.now.Add(time.Minute)
	case 2:
		e.Kind, e.N, e.Reason = fusebox.KindDenied, 2, fusebox.ReasonOpen
	case 3, 4:
		token := fmt.Sprint("lease", len(w.leases))
		w.leases = append(w.leases, token)
		e.Kind, e.Action, e.Lease = fusebox.KindLease, fusebox.ActionGranted, token
		e.Until, e.LastResort = w.now.Add(10*time.Second), rapid.Bool().Draw(w.T, "last resort")
	case 5, 6:
		if len(w.leases) > 0 {
			e.Lease, e.Admitted = rapid.SampledFrom(w.leases).Draw(w.T, "lease"), true
			e.Version = uint64(rapid.IntRange(0, 9).Draw(w.T, "version"))
		}
		e.Outcome = rapid.SampledFrom([]fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Canceled}).Draw(w.T, "verdict")
	case 7:
		e.Kind, e.Action, e.Phase = fusebox.KindHold, fusebox.ActionHeld, rapid.SampledFrom([]fusebox.Phase{fusebox.Open, fusebox.Closed}).Draw(w.T, "to")
		e.Until = w.now.Add(2 * time.Second)
	case 8:
		e.Kind, e.Action = fusebox.KindHold, fusebox.ActionLifted
	case 9:
		e.Kind = rapid.SampledFrom([]fusebox.EventKind{fusebox.KindTrip, fusebox.KindReset, fusebox.KindStart, "novelty"}).Draw(w.T, "kind")
	case 10:
		e.Kind, e.State = fusebox.KindCheckpoint, &fusebox.State{Version: uint64(rapid.IntRange(0, 20).Draw(w.T, "version")), Phase: fusebox.Open, Since: w.now, Until: w.now.Add(time.Second), Through: 77, Seed: uint64(rapid.IntRange(0, 1).Draw(w.T, "seed"))}
	default:
		e.Outcome, e.Class, e.Error = fusebox.Failure, fusebox.ClassTool, "no such \xff customer <&>"
		e.Call = rapid.SampledFrom([]string{"", "a", "b\xff", "c", "d"}).Draw(w.T, "call")
		e.Elapsed = time.Duration(rapid.IntRange(0, 5e9).Draw(w.T, "elapsed"))
	}
	return e
}

func (w *workshop) events() []fusebox.Event {
	var events []fusebox.Event
	for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 2, 5, 80}).Draw(w.T, "events") {
		events = append(events, w.event())
	}
	return events
}

// foreign is what another program appends, without lock or state.
func (w *workshop) foreign() string {
	switch rapid.IntRange(0, 5).Draw(w.T, "foreign") {
	case 0:
		return "not a record\n"
	case 1:
		return `{"at":"20` // torn
	case 2:
		e := w.event()
		return string(e.AppendJSON(nil)) // without a line end
	}
	e := w.event()
	return string(e.AppendJSON(nil)) + "\n"
}

func (w *workshop) appendForeign(text string) {
	f, err := os.OpenFile(w.stores[0].path(bench, logSuffix), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		w.Fatal(err)
	}
}

// slippedIn does what write does, and in the middle another program appends.
func (w *workshop) slippedIn(s *Store, text string, events []fusebox.Event) {
	c, err := s.circuit(bench)
	if err != nil {
		w.Fatal(err)
	}
	f, err := os.OpenFile(s.path(bench, logSuffix), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	if err := c.refresh(f); err != nil {
		w.Fatal(err)
	}
	b, err := s.compose(c, f, &legacy{}, events, w.now)
	if err != nil {
		w.Fatal(err)
	}
	torn := b.closes()
	w.appendForeign(text)
	if err := s.append(c, f, b); errors.Is(err, errGlued) != (torn || !strings.HasSuffix(text, "\n")) {
		w.Fatal(err)
	}
}

// check holds what each process knows against what one that has seen nothing
// reads.
func (w *workshop) check() {
	var first string
	for i, s := range append(w.stores, w.fresh()) {
		c, err := s.circuit(bench)
		if err != nil {
			w.Fatal(err)
		}
		c.given, c.policy = fusebox.Policy{}, fusebox.Policy{} // what is recorded, not what this process would have
		state, err := s.peek(c)
		if err != nil {
			w.Fatal(err)
		}
		if c.journal.state.Seed == 0 {
			return // nobody has decided anything
		}
		state.Through, state.Revision = 0, state.Revision-c.blocks
		text, _ := json.Marshal(&state)
		if i == 0 {
			first = string(text)
		} else if string(text) != first {
			w.Fatalf("process %d of %d sees\n%s\nand process 0\n%s", i, len(w.stores), text, first)
		}
	}
}

func (w *workshop) fresh() *Store {
	s, err := Open(Config{Dir: w.dir})
	if err != nil {
		w.Fatal(err)
	}
	s.now = func() time.Time { return w.now }
	return s
}

// I16: folding a log again in file order gives the same states, whoever wrote
// it, whatever the clock did; and every process sees the same.
func TestI16RefoldGivesTheRecordedStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "filestore")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorkshop(t, dir, rapid.SampledFrom([]int64{1 << 20, 20_000, 4000}).Draw(t, "limit"))
		apply := func(t *rapid.T) {
			events := w.events()
			state, err := w.store().Apply(t.Context(), bench, w.policy(), events...)
			if err != nil {
				t.Fatal(err)
			}
			if !state.Now.Equal(w.now) {
				t.Fatalf("now %v, want %v", state.Now, w.now)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply":  apply,
			"apply2": apply,
			"apply3": apply,
			"read": func(t *rapid.T) {
				if _, err := w.store().Apply(t.Context(), bench, fusebox.Policy{}); err != nil {
					t.Fatal(err)
				}
			},
			"append":     func(t *rapid.T) { w.appendForeign(w.foreign()) },
			"slipped in": func(t *rapid.T) { w.slippedIn(w.store(), w.foreign(), w.events()) },
			"time goes on": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
			},
			"clock set back": func(t *rapid.T) {
				w.now = w.now.Add(-time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) { w.check() },
		})
		refoldFiles(t, dir)
	})
}

func TestRefoldNamesTheStepThatDiffers(t *testing.T) {
	s := open(t, Config{})
	apply(t, s, bench, failure(time.Now()))
	apply(t, s, bench, failure(time.Now()))
	text, err := os.ReadFile(s.path(bench, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(text), `"streak":2`, `"streak":7`, 1)
	var agrees []bool
	for step, err := range Refold(bench, strings.NewReader(forged), time.Now()) {
		if err != nil {
			t.Fatal(err)
		}
		agrees = append(agrees, step.Agrees())
	}
	if fmt.Sprint(agrees) != "[true false]" {
		t.Errorf("agrees: %v", agrees)
	}
}
