package fusebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// there lists who is there.
func there(t *testing.T, store fusebox.Presence) []fusebox.Worker {
	t.Helper()
	workers, err := store.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return workers
}

func TestWorkersAnnounceThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		strict := fusebox.DefaultPolicy("tool")
		strict.Trip, strict.Loaded = []fusebox.Trip{fusebox.Streak(2)}, time.Now()
		begun := time.Now()
		box := newBox(t, fusebox.Config{Store: store, Worker: "web-1:7", Version: "v1.2.3", Policy: func(circuit string) fusebox.Policy {
			if circuit == "tool/crm" {
				return strict
			}
			return fusebox.Policy{}
		}})
		for _, name := range []string{"tool/search", "tool/crm", "tool/calc"} {
			circuit(t, box, name)
		}
		circuit(t, box, "run/r") // how a run is recorded is nobody's policy
		time.Sleep(2 * time.Second)
		workers := there(t, store)
		if len(workers) != 1 {
			t.Fatalf("there are %+v, want one", workers)
		}
		w := workers[0]
		if w.ID == "" || w.Name != "web-1:7" || w.Version != "v1.2.3" || !w.Since.Equal(begun) || !w.LocalSince.IsZero() {
			t.Errorf("it says %+v", w)
		}
		if len(w.Policies) != 2 {
			t.Fatalf("it has the policies %+v, want two", w.Policies)
		}
		usual, own := w.Policies[0], w.Policies[1]
		if !reflect.DeepEqual(usual.Circuits, []string{"tool/calc", "tool/search"}) || usual.Count != 2 || !usual.Policy.Equal(fusebox.DefaultPolicy("tool")) {
			t.Errorf("first policy %+v", usual)
		}
		if !reflect.DeepEqual(own.Circuits, []string{"tool/crm"}) || !own.Policy.Equal(strict) || !own.Policy.Loaded.Equal(strict.Loaded) {
			t.Errorf("second policy %+v", own)
		}

		first := w.Seen
		time.Sleep(13 * time.Second)
		if w = there(t, store)[0]; !w.Seen.After(first) || w.SilentAt(time.Now()) {
			t.Errorf("seen at %v, then at %v", first, w.Seen)
		}
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if workers := there(t, store); len(workers) != 0 {
			t.Errorf("closed, and still there: %+v", workers)
		}
	})
}

// A process that lives for a moment costs the store no command more.
func TestShortLivedWorkerIsNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faultyStore{store: fusebox.NewMemory()}
		box := newBox(t, fusebox.Config{Store: store, Worker: "short"})
		succeed(t, circuit(t, box, "tool/crm"))
		time.Sleep(900 * time.Millisecond)
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if store.announced != 0 {
			t.Errorf("announced %d times", store.announced)
		}
	})
}

// What lost the store is silent there, then gone, knows itself since when, and
// tells it once it is back.
func TestWorkerThatLosesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		c := circuit(t, mine, "model/a")
		time.Sleep(2 * time.Second)
		before := there(t, store)
		if len(before) != 2 {
			t.Fatalf("there are %+v, want two", before)
		}
		id := mine.Worker().ID
		find := func() *fusebox.Worker {
			for _, w := range there(t, store) {
				if w.ID == id {
					return &w
				}
			}
			return nil
		}
		store.set(func(f *faultyStore) { f.failed = errors.New("connection refused") })
		fail(t, c, 1)
		synctest.Wait()
		lost := time.Now()
		if w := mine.Worker(); !w.LocalSince.Equal(lost) || !w.LocalUntil.IsZero() {
			t.Errorf("it says of itself %+v, want local since %v", w, lost)
		}
		time.Sleep(30 * time.Second)
		if w := find(); w == nil || !w.SilentAt(time.Now()) {
			t.Errorf("after 30 s without a word: %+v", w)
		}
		time.Sleep(40 * time.Second)
		if w := find(); w != nil {
			t.Errorf("after 70 s without a word: %+v", w)
		}
		store.set(func(f *faultyStore) { f.failed = nil })
		time.Sleep(20 * time.Second)
		if w := find(); w == nil || !w.LocalSince.Equal(lost) || w.LocalUntil.Before(lost.Add(70*time.Second)) || w.SilentAt(time.Now()) {
			t.Errorf("back again: %+v, want local since %v", w, lost)
		}
	})
}

// While nobody calls, nothing but the announcement meets the store.
func TestIdleWorkerNoticesThatTheStoreIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mine, _ := shared(t)
		circuit(t, mine, "model/a")
		store.set(func(f *faultyStore) { f.failed = errors.New("connection refused") })
		time.Sleep(15 * time.Second)
		if w := mine.Worker(); w.LocalSince.IsZero() || !w.LocalUntil.IsZero() {
			t.Errorf("15 s without the store: %+v", w)
		}
		store.set(func(f *faultyStore) { f.failed = nil })
		time.Sleep(2 * time.Second)
		if w := mine.Worker(); w.LocalUntil.IsZero() {
			t.Errorf("the store is back: %+v", w)
		}
	})
}

// A worker's times are by the store's clock, however wrong its own is.
func TestWorkersTimesAreTheStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		store.Clock = func() time.Time { return time.Now().Add(time.Hour) }
		box := newBox(t, fusebox.Config{Store: store})
		begun := store.Clock()
		circuit(t, box, "tool/crm")
		time.Sleep(2 * time.Second)
		if w := there(t, store)[0]; w.Since.Sub(begun).Abs() > time.Second || w.SilentAt(store.Clock()) {
			t.Errorf("began at %v by the store's clock, says %+v", begun, w)
		}
	})
}

func TestWorkerTellsSoMuchAndNoMore(t *testing.T) {
	box := newBox(t, fusebox.Config{Policy: func(circuit string) fusebox.Policy {
		var n int
		fmt.Sscanf(circuit, "tool/%d", &n)
		p := fusebox.DefaultPolicy("tool")
		p.Trip = []fusebox.Trip{fusebox.Streak(2 + n/100)} // a policy for a hundred each
		return p
	}})
	for i := range 3000 {
		circuit(t, box, fmt.Sprintf("tool/%04d", i))
	}
	w := box.Worker()
	if len(w.Policies) != 20 {
		t.Errorf("%d policies, want 20", len(w.Policies))
	}
	for i, p := range w.Policies {
		if len(p.Circuits) != 50 || p.Count != 100 || p.Circuits[0] != fmt.Sprintf("tool/%04d", 100*i) {
			t.Errorf("policy %d names %d of %d from %s on", i, len(p.Circuits), p.Count, p.Circuits[0])
		}
	}
	if text, err := json.Marshal(w); err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestFingerprint(t *testing.T) {
	usual := fusebox.DefaultPolicy("tool")
	later := usual
	later.Loaded, later.Quorum = time.Now(), 1
	if usual.Fingerprint() != later.Fingerprint() || len(usual.Fingerprint()) != 8 {
		t.Errorf("fingerprints %q and %q of policies that decide alike", usual.Fingerprint(), later.Fingerprint())
	}
	seen := map[string]string{usual.Fingerprint(): "the usual one"}
	for name, change := range map[string]func(*fusebox.Policy){
		"trip":     func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{fusebox.Streak(4)} },
		"no trip":  func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{} },
		"on class": func(p *fusebox.Policy) { p.OnClass = nil },
		"faster":   func(p *fusebox.Policy) { p.FasterThan = time.Second },
		"overdue":  func(p *fusebox.Policy) { p.Overdue = time.Second },
		"distinct": func(p *fusebox.Policy) { p.Distinct = false },
		"cooldown": func(p *fusebox.Policy) { p.Cooldown.Jitter = 0.3 },
		"probe":    func(p *fusebox.Policy) { p.Probe.Attempts = 3 },
		"observe":  func(p *fusebox.Policy) { p.Observe = true },
		"quorum":   func(p *fusebox.Policy) { p.Quorum = 2 },
	} {
		p := usual
		change(&p)
		if other, twice := seen[p.Fingerprint()]; twice {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[p.Fingerprint()] = name
	}
}

func TestReportOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := fusebox.NewMemory()
		report, err := fusebox.ReadReport(t.Context(), memory)
		if err != nil || !report.Store.Answers || report.Store.Address != "memory" || !report.Store.Clock.Equal(time.Now()) || len(report.Circuits) != 0 {
			t.Errorf("%+v, %v", report.Store, err)
		}
		slow := &faultyStore{store: memory, delay: 70 * time.Millisecond}
		report, err = fusebox.ReadReport(t.Context(), slow)
		if err != nil || report.Store.Latency != 70*time.Millisecond {
			t.Errorf("a read takes 70ms: %+v, %v", report.Store, err)
		}
		// Each of many names once waited for a store that is down.
		down := &faultyStore{store: memory, hangs: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report, err = fusebox.ReadReport(ctx, down, "a", "b")
		if !errors.Is(err, context.DeadlineExceeded) || report.Store.Answers || report.Store.Error == "" {
			t.Errorf("it does not answer: %+v, %v", report.Store, err)
		}
		text, err := json.Marshal(report)
		if want := `{"circuits":[],"runs":[],"store":{"address":"","answers":false,"latency_ms":null,"error":"context deadline exceeded","clock":null},"workers":[]}`; string(text) != want {
			t.Errorf("as JSON %s, %v, want %s", text, err, want)
		}
	})
}

// What a store holds of a worker may be anybody's.
func FuzzWorkerJSON(f *testing.F) {
	p := fusebox.DefaultPolicy("tool")
	text, err := json.Marshal(fusebox.Worker{ID: "1", Name: "web", Since: time.Unix(1, 0).UTC(), Policies: []fusebox.WorkerPolicy{{p.Fingerprint(), p, []string{"tool/crm"}, 1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"policies":[{"policy":{"trip":["streak=0"]}}]}`)
	f.Add(`{"since":"0000-01-01T00:00:00Z","policies":[{"circuits":[""]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var w, again fusebox.Worker
		if json.Unmarshal([]byte(text), &w) != nil {
			return
		}
		for _, p := range w.Policies {
			if err := p.Policy.Validate(); err != nil && !p.Policy.IsZero() {
				t.Errorf("it took a policy that cannot be used: %v", err)
			}
		}
		back, err := json.Marshal(w)
		if err == nil {
			err = json.Unmarshal(back, &again)
		}
		if err != nil || again.Compare(w) != 0 || len(again.Policies) != len(w.Policies) {
			t.Errorf("%s reads back as %s, %v", text, back, err)
		}
	})
}
