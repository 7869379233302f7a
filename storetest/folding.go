package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// foldsAsFoldDoes compares the store with Fold itself, over several openings.
func foldsAsFoldDoes(t *testing.T, b *bed) {
	stores := []fusebox.Store{b.open(), b.open(), b.open()}
	p := policy()
	p.Trip = []fusebox.Trip{fusebox.Streak(4), fusebox.Count(6, time.Minute).Of(20), fusebox.Rate(0.7, time.Minute, 10)}
	p.Cooldown = fusebox.Cooldown{After: 3 * time.Second, Jitter: 0.5, Growth: 2, Max: 20 * time.Second}
	p.Quorum = 2
	random := rand.New(rand.NewPCG(1, 2))
	at := ago(time.Hour)
	first := b.apply(stores[0], p, success(at))
	model := fusebox.Fold(p, fusebox.State{Seed: first.Seed}, success(at))
	opened := 0
	for i := range 600 {
		at = at.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
		e := anyEvent(random, &model, at, i)
		e.Worker = []string{"a:1", "a:2", "b:1"}[random.IntN(3)]
		got := b.apply(stores[random.IntN(len(stores))], p, e)
		e.Circuit = name
		before := model
		model = fusebox.Fold(p, model, e)
		if model.Phase == fusebox.Open && before.Phase != fusebox.Open {
			opened++
		}
		if have, want := spell(got), spell(model); have != want {
			t.Fatalf("after event %d, %+v:\nhave %s\nwant %s", i, e, have, want)
		}
	}
	if opened < 10 {
		t.Fatalf("only %d incidents in all this: the test shows nothing", opened)
	}
	if got, want := spell(b.apply(b.open(), fusebox.Policy{})), spell(model); got != want {
		t.Errorf("a fresh opening sees\n%s\nwant\n%s", got, want)
	}
}

// anyEvent is an event that may matter in the state s.
func anyEvent(random *rand.Rand, s *fusebox.State, at time.Time, i int) fusebox.Event {
	token := fmt.Sprint("probe-", i)
	if len(s.Leases) > 0 && random.IntN(2) == 0 {
		token = s.Leases[0].Token
	}
	switch random.IntN(12) {
	case 0, 1, 2, 3:
		return failure(at)
	case 4:
		return success(at)
	case 5:
		return fusebox.Event{At: at, Outcome: fusebox.Success, N: 5, Since: at.Add(-time.Second), Elapsed: time.Millisecond}
	case 6, 7:
		return lease(token, at, at.Add(5*time.Second))
	case 8:
		return verdict(failure(at), token, s.Version)
	case 9:
		return verdict(success(at), token, s.Version)
	case 10:
		return fusebox.Event{Kind: fusebox.KindDenied, At: at, N: 3, Since: at, Reason: fusebox.ReasonOpen}
	}
	return verdict(fusebox.Event{At: at, Outcome: fusebox.Canceled}, token, s.Version)
}

// spell is all of a state that its events alone decide.
func spell(s fusebox.State) string {
	s.Revision, s.Through = 0, 0
	text, _ := json.Marshal(&s)
	return string(text)
}

func readsUnknown(t *testing.T, b *bed) {
	s := b.open()
	state := b.apply(s, policy())
	if state.Phase != fusebox.Closed || state.Version != 0 || state.HealthAt(time.Now()) != fusebox.Unknown {
		t.Errorf("have %+v", state)
	}
	if !state.Policy.Equal(policy()) {
		t.Errorf("policy %v, want the one that was given", state.Policy)
	}
	for circuit := range s.Circuits(t.Context()) {
		t.Errorf("reading made a circuit: %s", circuit)
	}
	for e, err := range s.Evidence(t.Context(), name, time.Time{}) {
		t.Errorf("evidence of nothing: %+v, %v", e, err)
	}
}

func unknownIsUsable(t *testing.T, b *bed) {
	state := b.apply(b.open(), policy())
	if d := state.Decide(time.Now()); !d.Go {
		t.Errorf("the first call is refused: %+v", d)
	}
}

func canonicalNames(t *testing.T, b *bed) {
	s := b.open()
	b.applyTo(s, " Model//OpenAI/GPT-5:Latest/ ", policy(), failure(ago(0)))
	state := b.applyTo(s, "model/openai/gpt-5:latest", policy())
	if state.Streak != 1 {
		t.Error("what was written under one spelling is not read under another")
	}
	if got := len(b.log(s, "MODEL/openai/gpt-5:latest")); got != 1 {
		t.Errorf("%d records under another spelling, want 1", got)
	}
	for _, bad := range []string{"", "../etc/passwd", "a/../b", "a\x00b", "a\\b", "a b", string(make([]byte, 10_000))} {
		if _, err := s.Apply(t.Context(), bad, policy(), failure(ago(0))); !errors.Is(err, fusebox.ErrName) {
			t.Errorf("%.20q: %v, want ErrName", bad, err)
		}
		for _, err := range s.Evidence(t.Context(), bad, time.Time{}) {
			if !errors.Is(err, fusebox.ErrName) {
				t.Errorf("evidence of %.20q: %v, want ErrName", bad, err)
			}
		}
	}
}

func listsCircuits(t *testing.T, b *bed) {
	s := b.open()
	long := "model/" + string(slices.Repeat([]byte("ü"), 90))
	want := []string{"a", "a+b", "con", long, "model/a/b", "model/a~1", "session/claude", "tool/x.jsonl", "tool/é/%2f"}
	for _, circuit := range want {
		b.applyTo(s, circuit, policy(), failure(ago(0)))
	}
	var got []string
	for circuit, err := range b.open().Circuits(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, circuit)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("have %q\nwant %q", got, want)
	}
	for _, circuit := range want {
		if state := b.applyTo(s, circuit, policy()); state.Streak != 1 {
			t.Errorf("%q: streak %d, want its own failure alone", circuit, state.Streak)
		}
	}
}

func evidenceReadsBack(t *testing.T, b *bed) {
	s := b.open()
	at := ago(time.Minute)
	want := []fusebox.Event{
		{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassStall, Elapsed: 1234567 * time.Nanosecond, Attempts: 2,
			Worker: "host-1", Run: "run 7", Call: "c4f", Error: `quote " and <ü>`, Admitted: true},
		{At: at.Add(time.Second), Outcome: fusebox.Success, N: 7, Since: at, Elapsed: time.Millisecond},
		{At: at.Add(2 * time.Second), Outcome: fusebox.Throttled, Until: at.Add(time.Hour)},
		{At: at.Add(3 * time.Second), Outcome: fusebox.Rejected, Late: true},
		{Kind: fusebox.KindDenied, At: at.Add(4 * time.Second), N: 3, Since: at, Reason: fusebox.ReasonThrottled, Observed: true},
		{Kind: fusebox.KindStart, At: at.Add(5 * time.Second), Run: "r", Lease: "l"},
	}
	for _, e := range want {
		b.apply(s, policy(), e)
	}
	text := func(e fusebox.Event) string {
		e.Circuit, e.State = "", nil
		return string(e.AppendJSON(nil))
	}
	got := b.log(b.open(), name)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if text(got[i]) != text(want[i]) {
			t.Errorf("record %d\nhave %s\nwant %s", i, text(got[i]), text(want[i]))
		}
	}
	count := 0
	for e, err := range s.Evidence(t.Context(), name, at.Add(4*time.Second)) {
		if err != nil || e.At.Before(at.Add(4*time.Second)) {
			t.Errorf("since: %+v, %v", e, err)
		}
		count++
	}
	if count != 2 {
		t.Errorf("%d records since, want 2", count)
	}
	for range s.Evidence(t.Context(), name, time.Time{}) {
		break // a reader may stop
	}
}

func transitionsAreRecorded(t *testing.T, b *bed) {
	s := b.open()
	at := ago(time.Hour)
	b.apply(s, policy(), failure(at), failure(at.Add(1)), failure(at.Add(2)))
	b.apply(s, policy(), lease("l", at.Add(time.Minute+2), ago(0)))
	b.apply(s, policy(), verdict(success(at.Add(2*time.Minute)), "l", 2))
	var got []string
	for _, e := range b.log(s, name) {
		if e.Kind == fusebox.KindTransition {
			got = append(got, fmt.Sprintf("%d %v %v %d", e.Version, e.From, e.Phase, e.Failures))
		}
	}
	want := []string{"1 closed open 3", "2 open half-open 0", "3 half-open closed 0"}
	if !slices.Equal(got, want) {
		t.Errorf("have %q, want %q", got, want)
	}
}

func laterPolicyWins(t *testing.T, b *bed) {
	s, at := b.open(), ago(time.Minute)
	older, newer := policy(), policy()
	older.Loaded, newer.Loaded = ago(2*time.Hour), ago(time.Hour)
	newer.Trip = []fusebox.Trip{fusebox.Streak(2)}
	b.apply(s, newer, failure(at))
	state := b.apply(b.open(), older, failure(at.Add(1)))
	if state.Phase != fusebox.Open || !state.Policy.Equal(newer) {
		t.Errorf("phase %v by %v: the older policy won", state.Phase, state.Policy.Trip)
	}
	newest := policy()
	newest.Loaded = ago(time.Minute)
	newest.Trip = []fusebox.Trip{fusebox.Count(9, time.Minute)}
	if state := b.apply(s, newest); !state.Policy.Equal(newest) {
		t.Errorf("reading by the newest policy gives %v", state.Policy)
	}
	if state := b.apply(b.open(), older); !state.Policy.Equal(newer) {
		t.Errorf("reading by an older policy gives %v", state.Policy)
	}
	b.apply(s, newest, fusebox.Event{Kind: fusebox.KindReset, At: at.Add(2)})
	if state := b.apply(b.open(), fusebox.Policy{}); !state.Policy.Equal(newest) || !state.Policy.Loaded.Equal(newest.Loaded) {
		t.Errorf("policy %v, want the newest", state.Policy)
	}
}

func givenLastWins(t *testing.T, b *bed) {
	s, at := b.open(), ago(time.Minute)
	strict := policy()
	strict.Trip = []fusebox.Trip{fusebox.Streak(2)}
	b.apply(s, policy(), failure(at))
	if state := b.apply(b.open(), strict, failure(at.Add(1))); state.Phase != fusebox.Open || !state.Policy.Equal(strict) {
		t.Errorf("phase %v by %v", state.Phase, state.Policy.Trip)
	}
}

func zeroPolicyIsTheStoredOne(t *testing.T, b *bed) {
	s, at := b.open(), ago(time.Minute)
	p := policy()
	p.Trip = []fusebox.Trip{fusebox.Streak(2)}
	b.apply(s, p, failure(at))
	if state := b.apply(b.open(), fusebox.Policy{}, failure(at.Add(1))); state.Phase != fusebox.Open {
		t.Errorf("phase %v: not by the stored policy", state.Phase)
	}
	state := b.applyTo(s, "session/x", fusebox.Policy{}, failure(at))
	want := fusebox.DefaultPolicy("session")
	want.Quorum = state.Policy.Quorum // what the store is made for
	if !state.Policy.Equal(want) {
		t.Errorf("policy %v, want the kind's", state.Policy)
	}
}

func throttles(t *testing.T, b *bed) {
	s := b.open()
	until := ago(-time.Minute)
	b.apply(s, policy(), fusebox.Event{At: ago(0), Outcome: fusebox.Throttled, Until: until})
	state := b.apply(b.open(), policy())
	if d := state.Decide(time.Now()); d.Go || d.Reason != fusebox.ReasonThrottled || state.Phase != fusebox.Closed {
		t.Errorf("phase %v, decision %+v", state.Phase, d)
	}
	if d := state.Decide(until); !d.Go {
		t.Error("I13: not usable when the throttle ends")
	}
	b.apply(s, policy(), fusebox.Event{Kind: fusebox.KindThrottle, At: ago(0)})
	if state := b.apply(b.open(), policy()); !state.Decide(time.Now()).Go {
		t.Error("a lifted throttle still refuses")
	}
}

func holds(t *testing.T, b *bed) {
	s := b.open()
	hold := func(action string, to fusebox.Phase) fusebox.State {
		return b.apply(s, policy(), fusebox.Event{Kind: fusebox.KindHold, Action: action, Phase: to, At: ago(0), Cause: "maintenance"})
	}
	hold(fusebox.ActionHeld, fusebox.Open)
	state := b.apply(b.open(), policy())
	if d := state.Decide(time.Now()); d.Reason != fusebox.ReasonHeld || state.Hold.Reason != "maintenance" {
		t.Errorf("decision %+v, hold %+v", d, state.Hold)
	}
	hold(fusebox.ActionLifted, 0)
	hold(fusebox.ActionHeld, fusebox.Closed)
	at := ago(0)
	state = b.apply(s, policy(), failure(at), failure(at), failure(at))
	if d := state.Decide(time.Now()); !d.Go {
		t.Errorf("held closed, and refused: %+v", d)
	}
	if state = hold(fusebox.ActionLifted, 0); state.Hold != nil || state.Phase != fusebox.Closed {
		t.Errorf("lifted: %+v", state)
	}
}

func resets(t *testing.T, b *bed) {
	s := b.open()
	if state := b.apply(s, policy(), fusebox.Event{At: ago(0), Outcome: fusebox.Failure, Class: fusebox.ClassAuth}); state.Phase != fusebox.Open {
		t.Fatalf("phase %v after a refused credential", state.Phase)
	}
	b.apply(b.open(), policy(), fusebox.Event{Kind: fusebox.KindReset, At: ago(0), Cause: "key replaced"})
	if state := b.apply(s, policy()); state.Phase != fusebox.Closed || state.Version != 2 || state.Cause != "operator: key replaced" {
		t.Errorf("have %v, version %d, %q", state.Phase, state.Version, state.Cause)
	}
}

func futureDoesNotCount(t *testing.T, b *bed) {
	s := b.open()
	p := policy()
	p.Trip = []fusebox.Trip{fusebox.Count(3, time.Hour)}
	ahead := ago(-30 * time.Minute)
	state := b.apply(s, p, failure(ahead), failure(ahead), failure(ahead), failure(ago(0)), failure(ago(0)))
	if state.Phase != fusebox.Closed {
		t.Fatal("marks in the future opened the circuit")
	}
	if state = b.apply(s, p, failure(ago(0))); state.Phase != fusebox.Open {
		t.Error("three failures that count did not open it")
	}
	if state.Since.After(state.Now) {
		t.Errorf("open since %v, which is in the future of %v", state.Since, state.Now)
	}
}

func checkpoints(t *testing.T, b *bed) {
	s := b.open()
	at := ago(0)
	b.apply(s, policy(), failure(at))
	lost := fusebox.State{Phase: fusebox.Open, Version: 5, Since: at, Until: at.Add(time.Minute), Seed: 7, Cause: "known before", Policy: policy()}
	state := b.apply(s, policy(), fusebox.Event{Kind: fusebox.KindCheckpoint, At: at, State: &lost})
	if state.Phase != fusebox.Open || state.Version != 5 {
		t.Errorf("I18: a newer state was not taken: %v, version %d", state.Phase, state.Version)
	}
	older := fusebox.State{Version: 4}
	if state = b.apply(b.open(), policy(), fusebox.Event{Kind: fusebox.KindCheckpoint, At: at, State: &older}); state.Version != 5 {
		t.Errorf("an older state was taken: version %d", state.Version)
	}
	for _, phase := range []fusebox.Phase{fusebox.Closed, fusebox.HalfOpen} {
		other := fusebox.State{Phase: phase, Version: 5, Since: at, Policy: policy()}
		if state = b.apply(b.open(), policy(), fusebox.Event{Kind: fusebox.KindCheckpoint, At: at, State: &other}); state.Phase != fusebox.Open {
			t.Errorf("of two states of one version %v was taken for open", phase)
		}
	}
	if state = b.apply(b.open(), policy()); state.Phase != fusebox.Open || !state.Until.Equal(lost.Until) {
		t.Errorf("read back: %v until %v", state.Phase, state.Until)
	}
}

func watchTells(t *testing.T, b *bed) {
	watcher, writer := b.open(), b.open()
	b.apply(watcher, policy()) // it has looked at it
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	states := make(chan fusebox.State, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- watcher.Watch(ctx, func(circuit string, s fusebox.State) {
			if circuit == name {
				states <- s
			}
		})
	}()
	at := ago(time.Second)
	b.apply(writer, policy(), failure(at), failure(at), failure(at))
	for {
		select {
		case s := <-states:
			if s.Phase != fusebox.Open {
				continue
			}
			if s.Now.IsZero() || s.Revision == 0 {
				t.Errorf("now %v, revision %d", s.Now, s.Revision)
			}
		case err := <-ended:
			t.Fatalf("watch ended: %v", err)
		}
		break
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("watch returned %v", err)
	}
}

func endedContext(t *testing.T, b *bed) {
	s := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Apply(ctx, name, policy(), failure(ago(0))); !errors.Is(err, context.Canceled) {
		t.Errorf("have %v", err)
	}
	if got := len(b.log(s, name)); got != 0 {
		t.Errorf("%d records of what failed", got)
	}
}

func closedStore(t *testing.T, b *bed) {
	s := b.open()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := s.Apply(t.Context(), name, policy(), failure(ago(0))); !errors.Is(err, fusebox.ErrClosed) {
		t.Errorf("apply after close: %v, want ErrClosed", err)
	}
}
