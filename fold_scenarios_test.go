package fusebox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What went wrong in other circuit breakers, as far as it can be shown without
// a process.

func TestLateResultsOfSlowCallsDecideNothing(t *testing.T) {
	p := rules(fusebox.Streak(1))
	slow := func(clock string, o fusebox.Outcome) fusebox.Event {
		return fusebox.Event{At: at(clock), Outcome: o, Admitted: true, Version: 0}
	}
	open := fold(p, fusebox.State{}, failed("12:00", 0), slow("12:00:30", fusebox.Success))
	want(t, "phase", open.Phase, fusebox.Open)
	half := fold(p, open, asks("12:01", "a", ""), slow("12:01:10", fusebox.Success))
	want(t, "slot", decide(half, "12:01:10").Probe, false)
	half = fold(p, half, slow("12:01:20", fusebox.Failure))
	want(t, "phase after the probe's success", fold(p, half, probed("12:01:30", "a", 2, fusebox.Success)).Phase, fusebox.Closed)
}

func TestStreakIsNotWindowed(t *testing.T) {
	p := rules(fusebox.Streak(5))
	s := fusebox.State{}
	for i := range 5 {
		want(t, fmt.Sprintf("phase after %d", i), s.Phase, fusebox.Closed)
		s = fold(p, s, fusebox.Event{At: at("12:00").Add(time.Duration(i) * 20 * time.Minute), Outcome: fusebox.Failure, Admitted: true})
	}
	want(t, "phase after five, each 20 minutes after the other", s.Phase, fusebox.Open)
}

// 100 calls a second for 10 s, of which the last 9 % fail, just after a
// boundary or just before one: a tumbling window saw 9 % or 90 %.
func TestShareIsOfARollingWindow(t *testing.T) {
	for _, start := range []string{"12:00:00.001", "12:00:00.5", "12:00:05", "12:00:09.999"} {
		p := rules(fusebox.Rate(0.12, 10*time.Second, 100))
		s := fusebox.State{}
		for i := range 1000 {
			e := fusebox.Event{At: at(start).Add(time.Duration(i) * 10 * time.Millisecond), Admitted: true}
			if i >= 910 {
				e.Outcome = fusebox.Failure
			}
			s = fold(p, s, e)
		}
		want(t, "phase at 9 % from "+start, s.Phase, fusebox.Closed)
		for i := range 50 {
			s = fold(p, s, fusebox.Event{At: at(start).Add(10*time.Second + time.Duration(i)*10*time.Millisecond), Outcome: fusebox.Failure, Admitted: true, Version: s.Version})
		}
		want(t, "phase at 14 % from "+start, s.Phase, fusebox.Open)
	}
}

// A run of successes that is reported after a failure that ended later reaches
// back further than the window does. It was once taken for a clock that had been
// set back, and the failure was forgotten.
func TestShareKeepsAFailureBesideALongRun(t *testing.T) {
	p := rules(fusebox.Rate(0.2, 10*time.Second, 100))
	run := fusebox.Event{At: at("11:59:59.999"), Since: at("11:59:50.499"), N: 7, Admitted: true}
	s := fold(p, fusebox.State{}, fusebox.Event{At: at("12:00"), Outcome: fusebox.Failure, Admitted: true}, run)
	want(t, "failures", s.CountAt(at("12:00")), 1)

	run.At, run.Since = at("11:50"), at("11:49:50") // this clock was set back
	s = fold(p, s, run)
	want(t, "failures on a clock that was set back", s.CountAt(at("11:50")), 0)
}

func TestShareIsComparedExactly(t *testing.T) {
	share := func(ratio float64, worked, bad int) fusebox.Phase {
		p := rules(fusebox.Rate(ratio, time.Hour, worked+bad))
		s := fusebox.State{}
		for range bad {
			s = fold(p, s, failed("12:00", 0))
		}
		for range worked {
			s = fold(p, s, fusebox.Event{At: at("12:00"), Admitted: true, Version: s.Version})
		}
		return s.Phase
	}
	want(t, "99 of 200 at a half", share(0.5, 101, 99), fusebox.Closed)
	want(t, "100 of 200 at a half", share(0.5, 100, 100), fusebox.Open)
	want(t, "3 of 10 at 0.3", share(0.3, 7, 3), fusebox.Open)
	want(t, "29 of 100 at 0.29", share(0.29, 71, 29), fusebox.Open)
	want(t, "1 of 3 at 0.333333334", share(0.333333334, 2, 1), fusebox.Closed)
	want(t, "all of 5 at 1", share(1, 0, 5), fusebox.Open)
}

func TestThresholdIsAtOrAbove(t *testing.T) {
	p := rules(fusebox.Streak(5))
	lower := rules(fusebox.Streak(2))
	lower.Loaded = at("12:00")
	s := fold(p, fusebox.State{}, failed("12:00", 0), failed("12:00", 0), failed("12:00", 0), failed("12:00", 0))
	want(t, "phase at four of two, by the first failure after the policy changed", fold(lower, s, failed("12:01", 0)).Phase, fusebox.Open)
	for range 8 { // eight that were under way together
		s = fold(p, s, failed("12:00:10", 0))
	}
	want(t, "phase", s.Phase, fusebox.Open)
	want(t, "count", s.Failures, 5)
	s = fold(p, s, asks("12:02", "a", ""), probed("12:02", "a", 2, fusebox.Success))
	for range 8 {
		s = fold(p, s, failed("12:03", 3))
	}
	want(t, "phase after the next eight", s.Phase, fusebox.Open)
}

func TestStoredDeadlineIsTheDeadline(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown = fusebox.Cooldown{After: 500 * time.Millisecond}
	s := fold(p, fusebox.State{}, failed("12:00:00.9", 0))
	var read fusebox.State
	if err := read.UnmarshalJSON([]byte(stateText(s))); err != nil {
		t.Fatal(err)
	}
	other := rules(fusebox.Streak(1))
	other.Cooldown = fusebox.Cooldown{After: 10 * time.Minute}
	read = fold(other, read, refused("12:00:01", 1, fusebox.ReasonOpen))
	want(t, "deadline after a restart with another policy", read.Until, at("12:00:01.4"))
	want(t, "decision just before", read.Decide(at("12:00:01.399999999")).Probe, false)
	want(t, "decision", read.Decide(at("12:00:01.4")).Probe, true)
}

func TestAuthTripsAtOnceAndAResetEndsIt(t *testing.T) {
	p := rules(fusebox.Count(5, time.Minute))
	denied := failed("12:00", 0)
	denied.Class, denied.Error = fusebox.ClassAuth, "401"
	s := fold(p, fusebox.State{}, denied)
	want(t, "phase", s.Phase, fusebox.Open)
	want(t, "count", s.Failures, 1)
	want(t, "cause", s.Cause, "class auth")
	want(t, "status", string(s.StatusAt("c", at("12:00")).LastClass), "auth")
	s = fold(p, s, fusebox.Event{Kind: fusebox.KindReset, At: at("12:00:10"), Cause: "key renewed"})
	want(t, "phase after the reset", s.Phase, fusebox.Closed)
	want(t, "cause after the reset", s.Cause, "operator: key renewed")
}

func TestExcludedFailuresWorked(t *testing.T) {
	p := rules(fusebox.Streak(2))
	p.FasterThan = time.Minute
	after := func(elapsed time.Duration, class fusebox.Class) fusebox.Event {
		e := failed("12:00", 0)
		e.Elapsed, e.Class = elapsed, class
		return e
	}
	s := fold(p, fusebox.State{}, after(5*time.Second, ""), after(time.Minute+1, ""), after(5*time.Second, ""))
	want(t, "streak that a slow failure interrupted", s.Streak, 1)
	want(t, "an auth failure that took long", fold(p, s, after(2*time.Minute, fusebox.ClassAuth)).Phase, fusebox.Closed)
	want(t, "at the limit itself", fold(p, s, after(time.Minute, "")).Phase, fusebox.Open)
}

func TestDistinctCountsOneBadPlanOnce(t *testing.T) {
	p := rules(fusebox.Streak(3))
	p.Distinct = true
	call := func(run, call string) fusebox.Event { return called(failed("12:00", 0), run, call) }
	s := fusebox.State{}
	for range 50 {
		s = fold(p, s, call("r1", "lookup(4521)"))
	}
	want(t, "phase after one call 50 times", s.Phase, fusebox.Closed)
	want(t, "streak", s.Streak, 1)
	s = fold(p, s, call("r2", "lookup(4521)"), call("r2", "lookup(4522)"))
	want(t, "phase after the call of another run, and another call", s.Phase, fusebox.Open)

	s = fold(p, fusebox.State{}, call("r1", "a"), call("r1", "b"), worked("12:00", 0), call("r1", "a"), call("r1", "b"))
	want(t, "streak after a success in between", s.Streak, 2)
	s = fold(p, fusebox.State{}, call("", ""), call("", ""), call("", ""))
	want(t, "phase after three calls that nobody named", s.Phase, fusebox.Open)
}

func TestLastResortIsOncePerCooldownAndCostsNothing(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown.Growth = 2
	open := fold(p, fusebox.State{}, failed("12:00", 0))
	resort := func(clock, token string) fusebox.Event {
		e := asks(clock, token, "")
		e.LastResort = true
		return e
	}
	half := fold(p, open, resort("12:00:10", "a"))
	want(t, "phase", half.Phase, fusebox.HalfOpen)
	want(t, "phase when it succeeds", fold(p, half, probed("12:00:12", "a", 2, fusebox.Success)).Phase, fusebox.Closed)
	back := fold(p, half, probed("12:00:12", "a", 2, fusebox.Failure))
	want(t, "phase when it fails", back.Phase, fusebox.Open)
	want(t, "deadline", back.Until, open.Until)
	want(t, "growth", back.FailedProbes, 0)
	want(t, "a second one", fold(p, back, resort("12:00:20", "b")).Phase, fusebox.Open)
	next := fold(p, back, asks("12:01", "c", ""), probed("12:01:01", "c", 4, fusebox.Failure))
	want(t, "the next cooldown", next.Until.Sub(next.Since), 2*time.Minute)
	want(t, "one in the next cooldown", fold(p, next, resort("12:01:20", "d")).Phase, fusebox.HalfOpen)
}

func TestOperatorsTripAndResetWorkInAnyPhase(t *testing.T) {
	p := rules(fusebox.Streak(1))
	closed := fold(p, fusebox.State{}, worked("12:00", 0))
	open := fold(p, closed, failed("12:00", 0))
	half := fold(p, open, asks("12:01", "a", ""))
	for name, s := range map[string]fusebox.State{"closed": closed, "open": open, "half-open": half} {
		tripped := fold(p, s, fusebox.Event{Kind: fusebox.KindTrip, At: at("12:02"), Cause: "drill"})
		want(t, name+", tripped", fmt.Sprint(tripped.Phase, " ", tripped.Version-s.Version, " ", tripped.Cause, " ", tripped.Until.Equal(at("12:03"))), "open 1 operator: drill true")
		reset := fold(p, s, fusebox.Event{Kind: fusebox.KindReset, At: at("12:02")})
		want(t, name+", reset", fmt.Sprint(reset.Phase, " ", reset.Version-s.Version, " ", reset.Cause), "closed 1 operator")
	}
	throttled := fold(p, closed, fusebox.Event{Kind: fusebox.KindThrottle, At: at("12:00"), Until: at("12:10")})
	want(t, "throttled", decide(throttled, "12:05").Reason, fusebox.ReasonThrottled)
	want(t, "version", throttled.Version, closed.Version)
	lifted := fold(p, throttled, fusebox.Event{Kind: fusebox.KindThrottle, At: at("12:05")})
	want(t, "throttle lifted", decide(lifted, "12:05").Go, true)
}

func TestPolicyOfTheNewerConfigurationRules(t *testing.T) {
	old, next := rules(fusebox.Streak(5)), rules(fusebox.Streak(2))
	old.Loaded, next.Loaded = at("11:00"), at("11:30")
	s := fold(next, fusebox.State{}, failed("12:00", 0))
	s = fold(old, s, failed("12:01", 0)) // a worker that was not restarted yet
	want(t, "phase", s.Phase, fusebox.Open)
	want(t, "policy", s.Policy.Equal(next), true)
	want(t, "policy after a fold by none", fusebox.Fold(fusebox.Policy{}, s, worked("12:02", 1)).Policy.Equal(next), true)
	kind := fusebox.Fold(fusebox.Policy{}, fusebox.State{}, fusebox.Event{Circuit: "session/a", At: at("12:00")})
	want(t, "policy where nobody has one", kind.Policy.Equal(fusebox.DefaultPolicy("session")), true)
}

// The numbers of the contract.

// Six sessions of a morning, in the order in which they ended. The circuit
// opens at the third fast failure; under a streak it never does.
func TestInterleavedMorning(t *testing.T) {
	session := func(clock string, o fusebox.Outcome, took time.Duration) fusebox.Event {
		e := fusebox.Event{At: at(clock), Outcome: o, Elapsed: took, Circuit: "session/a"}
		if o == fusebox.Failure {
			e.Class = fusebox.ClassCrash
		}
		return e
	}
	morning := func(p fusebox.Policy) string {
		s := fusebox.State{}
		var opened []string
		for _, c := range []struct {
			clock string
			o     fusebox.Outcome
			took  time.Duration
		}{
			{"12:01", fusebox.Failure, 5 * time.Second}, {"12:03", fusebox.Failure, 7 * time.Second},
			{"12:05", fusebox.Success, 18 * time.Minute}, {"12:09", fusebox.Failure, 6 * time.Second},
			{"12:14", fusebox.Success, 11 * time.Minute}, {"12:18", fusebox.Failure, 4 * time.Second},
		} {
			before := s
			s = fold(p, s, session(c.clock, c.o, c.took))
			if tr, changed := fusebox.Changed("session/a", &before, &s); changed {
				opened = append(opened, fmt.Sprintf("%v to %v at %s, version %d, %d failures, until %s",
					tr.From, tr.To, tr.At.Format("15:04"), tr.Version, tr.Failures, tr.Until.Format("15:04")))
			}
		}
		return strings.Join(opened, "; ")
	}
	hour := rules(fusebox.Count(3, time.Hour))
	hour.Cooldown.After = time.Hour
	want(t, "three within an hour", morning(hour), "closed to open at 12:09, version 1, 3 failures, until 13:09")
	want(t, "three in a row", morning(rules(fusebox.Streak(3))), "")
}

// outage is one caller, run after run, against a dependency that is down for
// its first calls; each run is one piece of evidence, whatever it tried.
func outage(t *testing.T, down, runs, retries int, p fusebox.Policy) (calls, denied int, table string) {
	t.Helper()
	s := fusebox.State{}
	clock := at("12:00")
	var rows []string
	for run := range runs {
		clock = clock.Add(time.Minute)
		before := s.Phase
		lease := ""
		switch d := s.Decide(clock); {
		case d.Probe:
			lease = fmt.Sprint("run-", run)
			s = fusebox.Fold(p, s, fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: clock, Lease: lease})
		case !d.Go:
			s = fusebox.Fold(p, s, fusebox.Event{Kind: fusebox.KindDenied, At: clock, Reason: d.Reason})
			denied++
			rows = append(rows, fmt.Sprintf("%d:%v>%v:denied", run+1, before, s.Phase))
			continue
		}
		o := fusebox.Failure
		for range retries {
			if calls++; calls > down {
				o = fusebox.Success
				break
			}
		}
		s = fusebox.Fold(p, s, fusebox.Event{At: clock, Outcome: o, Admitted: true, Version: s.Version, Lease: lease})
		rows = append(rows, fmt.Sprintf("%d:%v>%v:%v", run+1, before, s.Phase, o))
	}
	return calls, denied, strings.Join(rows, " ")
}

func TestLongOutage(t *testing.T) {
	p := rules(fusebox.Streak(3))
	p.Cooldown = fusebox.Cooldown{Calls: 2}
	calls, denied, table := outage(t, 15, 13, 3, p)
	want(t, "calls", calls, 17)
	want(t, "denied", denied, 6)
	want(t, "table", table, "1:closed>closed:failure 2:closed>closed:failure 3:closed>open:failure "+
		"4:open>open:denied 5:open>open:denied 6:open>open:failure "+
		"7:open>open:denied 8:open>open:denied 9:open>open:failure "+
		"10:open>open:denied 11:open>open:denied 12:open>closed:success 13:closed>closed:success")

	_, _, table = outage(t, 12, 13, 3, p)
	want(t, "run 9 of an outage of 12 calls", strings.Contains(table, " 9:open>closed:success"), true)

	calls, denied, _ = outage(t, 15, 13, 3, fusebox.Policy{Trip: []fusebox.Trip{}, Observe: true})
	want(t, "calls without a circuit", calls, 23)
	want(t, "denied without a circuit", denied, 0)
}
