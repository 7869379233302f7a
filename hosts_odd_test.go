package fusebox_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// oneBad is a closed circuit of two hosts: the bad one's own circuit is open
// since 12:00:01, for a minute.
func oneBad(p fusebox.Policy) fusebox.State {
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	return fold(p, s, on("bad:1", failed("12:00:01", 0))...)
}

func TestI14AHoldBeatsAHostsOwnCircuit(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, oneBad(p), held("12:00:02", fusebox.Open, ""))
	want(t, "reason while held open", s.For("bad:1").Decide(at("12:30")).Reason, fusebox.ReasonHeld)
	p.Cooldown.After = time.Hour
	s = fold(p, oneBad(p), held("12:00:02", fusebox.Open, ""), lifted("12:00:03"))
	if have := goes(s, "12:00:03", "bad:1", "good:1"); have != "bad:1 probes, good:1 probes" {
		t.Errorf("after the hold was lifted: %q", have)
	}
}

func TestAQuorumOfOneEndsHostsOwnCircuits(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := oneBad(p)
	p.Quorum, p.Loaded = 1, at("12:00:02")
	s = fold(p, s, on("good:1", worked("12:00:03", 0))...)
	if have := goes(s, "12:00:03", "bad:1"); have != "bad:1" {
		t.Errorf("hosts count no more, and the one that had failed is still refused")
	}
	p.Quorum, p.Loaded = 2, at("12:00:04")
	s = fold(p, s, on("good:1", worked("12:00:05", 0))...)
	if have := goes(s, "12:00:05", "bad:1"); have != "bad:1" {
		t.Errorf("an own circuit of before is back")
	}
}

func TestNewRulesBeginAHostsOwnWindowsAnew(t *testing.T) {
	p := quorum(fusebox.Rate(0.9, time.Minute, 50), fusebox.Streak(100))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:01", 0))...)
	p.Trip, p.Loaded = []fusebox.Trip{fusebox.Rate(0.5, time.Hour, 3), fusebox.Streak(100)}, at("12:00:02")
	record := func(clock string) []fusebox.Event { // without a permit
		e := failed(clock, 0)
		e.Admitted = false
		return on("bad:1", e)
	}
	for _, clock := range []string{"12:00:10", "12:00:11", "12:00:12"} {
		s = fold(p, s, on("good:1", worked(clock, 0))...)
		s = fold(p, s, record(clock)...)
	}
	if have := goes(s, "12:00:13", "bad:1"); have != "" {
		t.Errorf("three of three calls failed by the new rule, and the host is not refused")
	}
}

func TestI17AHostsOwnRateCountsWhatWorked(t *testing.T) {
	p := quorum(fusebox.Rate(0.5, time.Minute, 4))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	run := worked("12:00:10", 0)
	run.N, run.Since = 100, at("12:00:05")
	s = fold(p, s, on("a:1", run)...)
	for _, clock := range []string{"12:00:11", "12:00:12", "12:00:13", "12:00:14"} {
		s = fold(p, s, on("a:1", failed(clock, 0))...)
	}
	if have := goes(s, "12:00:15", "a:1"); have != "a:1" {
		t.Errorf("4 of 104 calls failed, and the host's own circuit is open")
	}
}

func TestI17AHostsOwnSlowCallsOpenItsOwnCircuit(t *testing.T) {
	p := quorum(fusebox.Slow(0.5, time.Second, time.Minute, 3))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	for _, clock := range []string{"12:00:11", "12:00:12", "12:00:13"} {
		slow := worked(clock, 0)
		slow.Elapsed = 5 * time.Second
		s = fold(p, s, on("bad:1", slow)...)
	}
	if have := goes(s, "12:00:15", "bad:1", "good:1"); have != "good:1" {
		t.Errorf("let through: %q", have)
	}
}

func TestI19AHostThatFailsIsNotForgottenForHostsThatAreWell(t *testing.T) {
	p := quorum(fusebox.Rate(0.9, time.Hour, 1000), fusebox.Count(2, time.Hour))
	s := fold(p, fusebox.State{}, on("bad:1", failed("12:00", 0))...)
	for i := range 100 {
		e := on("host-"+string(rune('a'+i%26))+string(rune('a'+i/26)), worked("12:01", 0))[0]
		e.At = e.At.Add(time.Duration(i) * time.Second)
		s.Apply(&e)
	}
	s = fold(p, s, on("bad:1", failed("12:03", 0))...)
	if have := goes(s, "12:03:01", "bad:1"); have != "" {
		t.Errorf("the failures of a host are forgotten for others that are well")
	}
}

func TestI7AHostThatRecoveredHasNoPartInTheQuorum(t *testing.T) {
	auth := func(clock string) fusebox.Event {
		e := failed(clock, 0)
		e.Class = fusebox.ClassAuth
		return e
	}
	for name, test := range map[string]struct {
		policy fusebox.Policy
		fail   func(clock string) fusebox.Event
	}{
		"streak": {quorum(fusebox.Streak(1)), func(clock string) fusebox.Event { return failed(clock, 0) }},
		"count":  {quorum(fusebox.Count(1, time.Hour)), func(clock string) fusebox.Event { return failed(clock, 0) }},
		"class":  {quorum(fusebox.Streak(100)), auth},
	} {
		t.Run(name, func(t *testing.T) {
			s := fold(test.policy, fusebox.State{}, on("good:1", worked("12:00", 0))...)
			s = fold(test.policy, s, on("a:1", test.fail("12:00:01"), asks("12:01:01", "one", "12:02"), probed("12:01:02", "one", 0, fusebox.Success))...)
			s = fold(test.policy, s, on("b:1", test.fail("12:01:03"))...)
			if s.Phase != fusebox.Closed {
				t.Errorf("I7: what a host failed with before its recovery has part in the quorum: %s", s.Cause)
			}
		})
	}
}

func TestALaterFailureOfAnotherClassLeavesTheQuorumOfTheClass(t *testing.T) {
	p := quorum(fusebox.Streak(100))
	auth := failed("12:00:01", 0)
	auth.Class = fusebox.ClassAuth
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("a:1", auth, failed("12:00:02", 0))...) // the second was under way
	if s = fold(p, s, on("b:1", auth)...); s.Phase != fusebox.Open {
		t.Errorf("two hosts' credentials were refused, and the circuit is %v", s.Phase)
	}
}

func TestI13AHostsOwnProbeWaitsForTheThrottle(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, oneBad(p), on("good:1", throttledUntil("12:01", "12:05"))...)
	if s = fold(p, s, on("bad:1", asks("12:01:30", "one", "12:03"))...); s.HasLease("one") {
		t.Error("a probe was given while throttled")
	}
	if s = fold(p, s, on("bad:1", asks("12:05", "two", "12:06"))...); !s.HasLease("two") {
		t.Error("no probe was given after the throttle")
	}
}

func TestHeldClosedTheLastProberIsForgotten(t *testing.T) {
	p := quorum(fusebox.Streak(2))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0), failed("12:00:01", 0))...)
	s = fold(p, s, on("bad:1", failed("12:00:02", 0), asks("12:01:02", "one", "12:02"), probed("12:01:03", "one", 2, fusebox.Failure))...)
	s = fold(p, s, held("12:01:04", fusebox.Closed, ""), lifted("12:01:05"))
	want(t, "last prober", s.LastProber, "")
}

func TestStatesWithImpossibleHostsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"an own circuit while the circuit is open": `{"phase":"open","hosts":[{"name":"a","own":{"phase":"open"}}]}`,
		"negative counts":                          `{"hosts":[{"name":"a","own":{"failures":-1}}]}`,
	} {
		var s fusebox.State
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestAHostsOwnCircuitTellsRepeatsOfACallThatSuccessesHavePushedOut(t *testing.T) {
	p := quorum(fusebox.Count(2, time.Minute).Of(3))
	p.Distinct = true
	call := func(clock string) fusebox.Event {
		e := failed(clock, 0)
		e.Call = "lookup 17"
		return e
	}
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("a:1", call("12:00:01"), worked("12:00:02", 0), worked("12:00:03", 0), worked("12:00:04", 0))...)
	s = fold(p, s, on("a:1", failed("12:00:05", 0), call("12:00:06"))...)
	if have := goes(s, "12:00:07", "a:1"); have != "a:1" {
		t.Error("the repeat of a call that had failed within the window counted again")
	}
}

func TestWorkersWithoutANameAreAHostOfTheirOwn(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, failed("12:00:01", 0))
	if st := s.StatusAt("model/a", at("12:00:02")); len(st.Hosts) != 1 || st.Hosts[0].Host == "" {
		t.Errorf("hosts whose own circuits are open: %+v", st.Hosts)
	}
	before := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	if tr, changed := fusebox.Changed("model/a", &before, &s); !changed || tr.Host == "" {
		t.Errorf("told as the circuit's own: %+v", tr)
	}
	s = fold(p, s, on("good:1", failed("12:00:02", 0))...)
	if have := goes(s, "12:01:02", "", "good:1"); have != " probes, good:1 probes" {
		t.Errorf("open, nobody has probed yet, and at the deadline: %q", have)
	}
}

func TestAHostWhoseNameEndsInANumberIsShown(t *testing.T) {
	p := quorum(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, on("good:1", worked("12:00", 0))...)
	s = fold(p, s, on("batch:7:4711", failed("12:00:01", 0))...)
	if st := s.StatusAt("model/a", at("12:00:02")); len(st.Hosts) != 1 || st.Hosts[0].Host != "batch:7" {
		t.Errorf("hosts whose own circuits are open: %+v", st.Hosts)
	}
}
