package fusebox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

// quorum is rules with a quorum of two hosts.
func quorum(trip ...fusebox.Trip) fusebox.Policy {
	p := rules(trip...)
	p.Quorum = 2
	return p
}

// on has the events come from a worker.
func on(worker string, events ...fusebox.Event) []fusebox.Event {
	for i := range events {
		events[i].Worker = worker
	}
	return events
}

// goes says which of the workers a state lets through, or lets probe.
func goes(s fusebox.State, clock string, workers ...string) string {
	var out []string
	for _, w := range workers {
		switch d := s.For(w).Decide(at(clock)); {
		case d.Go:
			out = append(out, w)
		case d.Probe:
			out = append(out, w+" probes")
		}
	}
	return strings.Join(out, ", ")
}

func TestI17OneBadHostDoesNotOpenTheFleet(t *testing.T) {
	auth := func(clock string) fusebox.Event {
		e := failed(clock, 0)
		e.Class = fusebox.ClassAuth
		return e
	}
	slow := func(clock string) fusebox.Event {
		e := worked(clock, 0)
		e.Elapsed = 5 * time.Second
		return e
	}
	for _, test := range []struct {
		name   string
		policy fusebox.Policy
		bad    func(clock string) fusebox.Event
	}{
		{"count", quorum(fusebox.Count(3, time.Minute)), nil},
		{"of", quorum(fusebox.Count(3, time.Minute).Of(10)), nil},
		{"streak", quorum(fusebox.Streak(3)), nil},
		{"rate", quorum(fusebox.Rate(0.5, time.Minute, 3)), nil},
		{"class", quorum(fusebox.Streak(100)), auth},
		{"slow", quorum(fusebox.Slow(0.5, time.Second, time.Minute, 3)), slow},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.bad == nil {
				test.bad = func(clock string) fusebox.Event { return failed(clock, 0) }
			}
			s := fold(test.policy, fusebox.State{}, on("good:7", worked("12:00", 0))...)
			for i := range 4 {
				s = fold(test.policy, s, on("bad:1", test.bad(fmt.Sprintf("12:00:%02d", 10+i)))...)
			}
			if s.Phase != fusebox.Closed {
				t.Fatalf("I17: failures of one host opened the circuit for all: %s", s.Cause)
			}
			if have := goes(s, "12:00:20", "bad:1", "bad:2", "good:7", "new:3"); have != "good:7, new:3" {
				t.Errorf("I17: let through: %q, want all hosts but the bad one", have)
			}
			s = fold(test.policy, s, on("good:7", test.bad("12:00:20"))...)
			if s.Phase != fusebox.Open {
				t.Fatalf("a second host failed and the circuit is %v", s.Phase)
			}
			if have := goes(s, "12:00:20", "bad:1", "good:7"); have != "" {
				t.Errorf("open, and let through: %q", have)
			}
		})
	}
}

func TestI17WithOneLiveHostItsFailuresAreEnough(t *testing.T) {
	p := quorum(fusebox.Streak(2))
	s := fold(p, fusebox.State{}, on("a:1", failed("12:00", 0), failed("12:01", 0))...)
	if s.Phase != fusebox.Open {
		t.Fatalf("one host is all there is, and its failures leave the circuit %v", s.Phase)
	}
	s = fold(p, fusebox.State{}, on("gone:1", worked("11:00", 0))...)
	s = fold(p, s, on("a:1", failed("12:00", 0), failed("12:01", 0))...)
	if s.Phase != fusebox.Open {
		t.Fatalf("a host that was last seen an hour ago counts as live: %v", s.Phase)
	}
	window := quorum(fusebox.Count(2, 2*time.Hour)) // what counts for longer keeps its host for longer
	s = fold(window, fusebox.State{}, on("slow:1", worked("11:00", 0))...)
	s = fold(window, s, on("a:1", failed("12:00", 0), failed("12:01", 0))...)
	if s.Phase != fusebox.Closed {
		t.Fatalf("a host that was seen within the window does not count as live: %v", s.Phase)
	}
}

func TestI17QuorumOfThree(t *testing.T) {
	p := quorum(fusebox.Count(2, time.Minute))
	p.Quorum = 3
	s := fold(p, fusebox.State{}, on("c:1", worked("12:00", 0))...)
	s = fold(p, s, on("a:1", failed("12:00", 0))...)
	s = fold(p, s, on("b:1", failed("12:00", 0))...)
	if s.Phase != fusebox.Closed {
		t.Fatalf("two of three hosts opened it: %v", s.Phase)
	}
	if s = fold(p, s, on("c:1", failed("12:00:01", 0))...); s.Phase != fusebox.Open {
		t.Fatalf("three of three hosts did not open it: %v", s.Phase)
	}
}

func TestI17OldFailuresOfOthersDoNotMakeTheQuorum(t *testing.T) {
	p := quorum(fusebox.Count(2, time.Minute))
	s := fold(p, fusebox.State{}, on("b:1", failed("12:00", 0), worked("12:05", 0))...)
	s = fold(p, s, on("a:1", failed("12:05", 0), failed("12:05:01", 0))...)
	if s.Phase != fusebox.Closed {
		t.Fatalf("a failure that left the window made the quorum: %v", s.Phase)
	}
	p = quorum(fusebox.Streak(2))
	s = fold(p, fusebox.State{}, on("b:1", failed("12:00", 0), worked("12:00:01", 0))...)
	s = fold(p, s, on("a:1", failed("12:00:02", 0), failed("12:00:03", 0))...)
	if s.Phase != fusebox.Closed {
		t.Fatalf("a failure from before the streak made the quorum: %v", s.Phase)
	}
}

func TestI17TheBadHostProbesForItself(t *testing.T) {
	p := quorum(fusebox.Streak(2))
	p.Cooldown.Growth = 2
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:01", 0), failed("12:00:02", 0), refused("12:00:03", 1, fusebox.ReasonOpen))...)
	if have := s.For("bad:1").Decide(at("12:00:30")); have.Reason != fusebox.ReasonOpen || have.RetryAfter != 32*time.Second {
		t.Fatalf("refused with %+v", have)
	}
	if have := goes(s, "12:01:02", "bad:1", "good:1"); have != "bad:1 probes, good:1" {
		t.Fatalf("after the cooldown: %q", have)
	}
	s = fold(p, s, on("good:1", asks("12:01:02", "none", ""))...)
	if s.HasLease("none") {
		t.Fatal("a host whose circuit is closed was given a probe")
	}
	s = fold(p, s, on("bad:1", asks("12:01:02", "one", "12:02"))...)
	s = fold(p, s, on("bad:2", asks("12:01:03", "two", "12:02"))...)
	if !s.HasLease("one") || s.HasLease("two") {
		t.Fatalf("I3: slots given: one %v, two %v", s.HasLease("one"), s.HasLease("two"))
	}
	s = fold(p, s, on("bad:1", probed("12:01:04", "one", 0, fusebox.Failure))...)
	if have := goes(s, "12:03:03", "bad:1", "good:1"); have != "good:1" {
		t.Fatalf("the probe failed, the cooldown has doubled, and let through: %q", have)
	}
	s = fold(p, s, on("bad:2", asks("12:03:04", "three", "12:04"))...)
	s = fold(p, s, on("bad:2", probed("12:03:05", "three", 0, fusebox.Success))...)
	if have := goes(s, "12:03:05", "bad:1", "good:1"); have != "bad:1, good:1" {
		t.Fatalf("the probe succeeded, and let through: %q", have)
	}
	if s.Version != 0 || s.Phase != fusebox.Closed {
		t.Errorf("the circuit itself: %v, version %d, want it untouched", s.Phase, s.Version)
	}
}

func TestI2AResultFromBeforeTheHostsOwnCircuitOpenedDoesNotReopenIt(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:01", 0), asks("12:01:01", "one", "12:02"), probed("12:01:02", "one", 0, fusebox.Success))...)
	late := failed("12:01:30", 0)
	late.Elapsed = 80 * time.Second // it began before
	s = fold(p, s, on("bad:2", late)...)
	if have := goes(s, "12:01:30", "bad:1"); have != "bad:1" {
		t.Fatal("I2: a call from before the probe opened the host's circuit again")
	}
}

func TestAHostWhoseProbeFailedLetsOthersGoFirst(t *testing.T) {
	p := quorum(fusebox.Streak(2))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0), failed("12:00:01", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:02", 0))...)
	s = fold(p, s, on("bad:1", asks("12:01:02", "one", "12:02"), probed("12:01:03", "one", 2, fusebox.Failure))...)
	if have := goes(s, "12:02:03", "bad:2", "good:1", "new:1"); have != "good:1 probes, new:1 probes" {
		t.Fatalf("at the deadline: %q", have)
	}
	if s := fold(p, s, on("bad:2", asks("12:02:03", "two", "12:03"))...); s.HasLease("two") {
		t.Error("the host whose probe failed was given the next one at once")
	}
	if have := goes(s, "12:02:33", "bad:2"); have != "bad:2 probes" {
		t.Errorf("half a cooldown later, and nobody else came: %q", have)
	}
	s = fold(p, s, on("good:1", asks("12:02:03", "three", "12:03"), probed("12:02:04", "three", 4, fusebox.Success))...)
	if s.Phase != fusebox.Closed || s.LastProber != "" {
		t.Errorf("a good host's probe succeeded: %v, last prober %q", s.Phase, s.LastProber)
	}
	alone := fold(p, fusebox.State{}, on("a:1", failed("12:00", 0), failed("12:00:01", 0), asks("12:01:01", "one", "12:02"), probed("12:01:02", "one", 2, fusebox.Failure))...)
	if have := goes(alone, "12:02:02", "a:1"); have != "a:1 probes" {
		t.Errorf("a host that is alone waits for others: %q", have)
	}
}

func TestAnOperatorsResetForgivesHosts(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	bad := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	bad = fold(p, bad, on("bad:1", failed("12:00:01", 0))...)
	for name, e := range map[string]fusebox.Event{
		"reset":       {Kind: fusebox.KindReset, At: at("12:00:02")},
		"held closed": held("12:00:02", fusebox.Closed, ""),
	} {
		if have := goes(fold(p, bad, e), "12:00:03", "bad:1"); have != "bad:1" {
			t.Errorf("%s: the bad host is still refused", name)
		}
	}
}

func TestAThrottleHoldsForAHostsOwnProbe(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:01", 0))...)
	s = fold(p, s, on("good:1", throttledUntil("12:00:02", "12:05"))...)
	if d := s.For("bad:1").Decide(at("12:02")); d.Reason != fusebox.ReasonThrottled {
		t.Errorf("while throttled: %+v", d)
	}
	if have := goes(s, "12:05", "bad:1"); have != "bad:1 probes" {
		t.Errorf("after the throttle: %q", have)
	}
}

func TestI19HostsAreBounded(t *testing.T) {
	p := quorum(fusebox.Count(5, time.Hour))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	for range 5 {
		s = fold(p, s, on("bad:1", failed("12:00", 0))...)
	}
	for i := range 1000 {
		e := on(fmt.Sprintf("host-%d:1", i), worked("12:01", 0))[0]
		e.At = e.At.Add(time.Duration(i) * time.Second)
		s.Apply(&e)
	}
	if len(s.Hosts) != fusebox.MaxQuorum {
		t.Errorf("%d hosts are kept, want %d", len(s.Hosts), fusebox.MaxQuorum)
	}
	if have := goes(s, "12:00:30", "bad:1"); have != "" {
		t.Error("the host whose own circuit is open was forgotten for hosts that are well")
	}
	for i := range 10_000 { // it is observed only, say, and goes on failing
		e := on("bad:1", failed("12:20", 0))[0]
		e.At = e.At.Add(time.Duration(i) * time.Millisecond)
		s.Apply(&e)
	}
	if len(s.Marks) > 100 || s.Phase != fusebox.Closed {
		t.Errorf("%v, %d marks are kept for a threshold of 5", s.Phase, len(s.Marks))
	}
	long := on(strings.Repeat("ü", 200), worked("12:30", 0))
	if s = fold(p, s, long...); len(s.Hosts[len(s.Hosts)-1].Name) > 64 {
		t.Error("a host's name is kept whatever its length")
	}
}

func TestHostOf(t *testing.T) {
	for worker, want := range map[string]string{"web-1:4711": "web-1", "web-1": "web-1", "": "unnamed", "batch:eu": "batch:eu", "batch:eu:12": "batch:eu", "a:": "a:", ":1": "unnamed"} {
		if have := fusebox.HostOf(worker); have != want {
			t.Errorf("%q: host %q, want %q", worker, have, want)
		}
	}
}

func TestI16HostsSurviveTheLog(t *testing.T) {
	p := quorum(fusebox.Streak(2))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:01", 0), failed("12:00:02", 0), asks("12:01:02", "one", "12:02"))...)
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read fusebox.State
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(read); string(again) != string(b) {
		t.Errorf("written again\n%s\nwant\n%s", again, b)
	}
	end := on("bad:1", probed("12:01:03", "one", 0, fusebox.Success))
	if have, want := fold(p, read, end...), fold(p, s, end...); !reflect.DeepEqual(goes(have, "12:01:04", "bad:1"), goes(want, "12:01:04", "bad:1")) {
		t.Error("what was read back goes on otherwise")
	}
	if err := json.Unmarshal([]byte(`{"hosts":[{"name":"a","own":{"streak":-1}}]}`), &read); err == nil {
		t.Error("a host's own circuit that no fold can have made was taken")
	}
}

// TestI17AHostsOwnCircuitIsACircuit compares a host's own circuit with one that
// hears of nothing else.
func TestI17AHostsOwnCircuitIsACircuit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone := rules(fusebox.Streak(rapid.IntRange(1, 4).Draw(t, "streak")), fusebox.Count(rapid.IntRange(1, 4).Draw(t, "count"), 20*time.Second).Of(8))
		if rapid.Bool().Draw(t, "shares") {
			alone.Trip = append(alone.Trip, fusebox.Rate(0.5, 40*time.Second, 3), fusebox.Slow(0.5, time.Second, 40*time.Second, 3))
		}
		alone.Probe = fusebox.Probe{Concurrent: rapid.IntRange(1, 2).Draw(t, "probes"), CloseAfter: rapid.IntRange(1, 2).Draw(t, "close after"), Lease: 10 * time.Second}
		alone.Cooldown = fusebox.Cooldown{After: 15 * time.Second, Growth: 2, Max: time.Minute}
		if rapid.Bool().Draw(t, "cooldown by calls") {
			alone.Cooldown = fusebox.Cooldown{Calls: 3}
		}
		alone.Distinct = rapid.Bool().Draw(t, "distinct")
		alone.FasterThan = time.Duration(rapid.SampledFrom([]int{0, 1}).Draw(t, "faster than")) * time.Second
		shared := alone
		shared.Quorum = 2
		now := at("12:00")
		s := fusebox.Fold(shared, fusebox.State{}, fusebox.Event{At: now, Outcome: fusebox.Success, Worker: "good"})
		one := fusebox.State{Since: s.Since, Policy: alone}
		var leases []string
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(100, 8000).Draw(t, "gap")) * time.Millisecond)
			e := fusebox.Event{At: now, Worker: "bad:1", Elapsed: time.Duration(rapid.SampledFrom([]int{1, 1, 90, 2000}).Draw(t, "ms")) * time.Millisecond}
			switch d := one.Decide(now); {
			case len(leases) > 0 && rapid.Bool().Draw(t, "report"):
				e.Lease, e.Admitted, leases = leases[0], true, leases[1:]
				e.Outcome = rapid.SampledFrom([]fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Canceled}).Draw(t, "verdict")
			case d.Go:
				e.Outcome = rapid.SampledFrom([]fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Failure, fusebox.Canceled, fusebox.Rejected}).Draw(t, "outcome")
				e.Call = rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "call")
			case d.Probe:
				leases = append(leases, fmt.Sprint("lease-", i))
				e = fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: now, Worker: "bad:1", Lease: leases[len(leases)-1], Until: now.Add(10 * time.Second)}
			case d.Reason == fusebox.ReasonOpen && rapid.Bool().Draw(t, "last resort"):
				leases = append(leases, fmt.Sprint("lease-", i))
				e = fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: now, Worker: "bad:1", Lease: leases[len(leases)-1], Until: now.Add(10 * time.Second), LastResort: true}
			default:
				e = fusebox.Event{Kind: fusebox.KindDenied, At: now, Worker: "bad:1", Reason: d.Reason}
			}
			own := e
			own.Version = one.Version
			own.MarkLate(&one)
			one = fusebox.Fold(alone, one, own)
			e.MarkLate(&s)
			s = fusebox.Fold(shared, s, e)
			good := fusebox.Event{At: now, Outcome: fusebox.Success, Worker: "good:2"}
			s = fusebox.Fold(shared, s, good)
			if s.Phase != fusebox.Closed || s.Version != 0 {
				t.Fatalf("I17: one host moved the circuit to %v", s.Phase)
			}
			for _, later := range []time.Duration{0, 7 * time.Second, 20 * time.Second} {
				if have, want := s.For("bad:9").Decide(now.Add(later)), one.Decide(now.Add(later)); have != want {
					t.Fatalf("step %d, %v later: its own circuit says %+v, a circuit alone %+v", i, later, have, want)
				}
			}
			if d := s.For("good:2").Decide(now); !d.Go {
				t.Fatalf("I17: the other host is refused: %+v", d)
			}
		}
	})
}

// TestI17TheQuorumAgreesWithWhoFailed compares with a list of all that happened
// since the circuit closed last.
func TestI17TheQuorumAgreesWithWhoFailed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold, want := rapid.IntRange(1, 4).Draw(t, "threshold"), rapid.IntRange(2, 4).Draw(t, "quorum")
		within := 30 * time.Second
		p := rules(fusebox.Count(threshold, within))
		p.Quorum = want
		type result struct {
			at     time.Time
			host   string
			failed bool
		}
		var since []result
		seen := map[string]time.Time{}
		var s fusebox.State
		now := at("12:00")
		for i := range rapid.IntRange(1, 80).Draw(t, "results") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 5, 20, 400}).Draw(t, "seconds")) * time.Second)
			r := result{now, rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "host"), rapid.Bool().Draw(t, "failed")}
			since, seen[r.host] = append(since, r), now
			e := fusebox.Event{At: now, Worker: r.host + ":1", Outcome: fusebox.Success}
			if r.failed {
				e.Outcome = fusebox.Failure
			}
			s = fusebox.Fold(p, s, e)
			failures, hosts, live := 0, map[string]bool{}, 0
			for _, old := range since {
				if old.failed && now.Sub(old.at) <= within {
					failures++
					hosts[old.host] = true
				}
			}
			for _, last := range seen {
				if now.Sub(last) <= 10*time.Minute {
					live++
				}
			}
			opens := r.failed && failures >= threshold && len(hosts) >= min(want, live)
			if (s.Phase == fusebox.Open) != opens {
				t.Fatalf("I17: result %d: %d failures of %d hosts, %d live: the circuit is %v", i, failures, len(hosts), live, s.Phase)
			}
			if opens {
				since = nil
				s = fusebox.Fold(p, s, fusebox.Event{Kind: fusebox.KindReset, At: now})
				now = now.Add(time.Millisecond) // what is reported next began later
			}
		}
	})
}

// sharing is an in-memory store for many hosts.
type sharing struct{ *fusebox.Memory }

func (sharing) Quorum() int { return 2 }

func TestI17AProcessIsRefusedByItsHostsOwnCircuit(t *testing.T) {
	store := sharing{fusebox.NewMemory()}
	box := func(worker string) (*fusebox.Box, *fusebox.Circuit) {
		b, err := fusebox.New(fusebox.Config{Store: store, Worker: worker, Policy: func(string) fusebox.Policy { return rules(fusebox.Streak(2)) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		c, err := b.Circuit("model/x")
		if err != nil {
			t.Fatal(err)
		}
		return b, c
	}
	flush := func(b *fusebox.Box) {
		if err := b.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	goodBox, good := box("good:1")
	badBox, bad := box("bad:1")
	var told []fusebox.Transition
	badBox.OnTransition(func(tr fusebox.Transition) { told = append(told, tr) })
	permit, _ := good.Allow(context.Background())
	permit.Done(fusebox.Result{Outcome: fusebox.Success})
	flush(goodBox)
	for range 2 {
		permit, err := bad.Allow(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		permit.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassConnect})
	}
	flush(badBox)
	_, err := bad.Allow(context.Background())
	denial := fusebox.AsDenial(err)
	if denial == nil || denial.Reason() != fusebox.ReasonOpen || denial.RetryAfter() <= 0 {
		t.Fatalf("the bad host's call: %v", err)
	}
	if _, err := good.Allow(context.Background()); err != nil {
		t.Fatalf("I17: the good host is refused: %v", err)
	}
	if st := bad.Status(); st.Phase != fusebox.Open || st.Failures != 2 || st.Host != "bad" {
		t.Errorf("the bad host's status: %v, %d failures, host %q", st.Phase, st.Failures, st.Host)
	}
	if len(told) != 1 || told[0].Host != "bad" || told[0].To != fusebox.Open || told[0].Failures != 2 {
		t.Errorf("told: %+v", told)
	}
	report, err := fusebox.ReadReport(context.Background(), store)
	if err != nil || len(report.Circuits) != 1 {
		t.Fatal(report, err)
	}
	st := report.Circuits[0]
	if st.Phase != fusebox.Closed || len(st.Hosts) != 1 || st.Hosts[0].Host != "bad" || st.Hosts[0].Phase != fusebox.Open {
		t.Errorf("the store's report: %+v", st)
	}
	if b, _ := json.Marshal(st); !strings.Contains(string(b), `"hosts":[{"host":"bad","phase":"open"`) {
		t.Errorf("as JSON: %s", b)
	}
}
