package fusebox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// The invariants of the state machine, shown on Fold alone. What needs a
// process (panics, listeners, goroutines) is shown on Circuit and Box.

// decide is what s says at a time.
func decide(s fusebox.State, clock string) fusebox.Decision { return s.Decide(at(clock)) }

// trail folds the events and returns each phase and version on the way.
func trail(p fusebox.Policy, events ...fusebox.Event) string {
	var steps []string
	s := fusebox.State{}
	for _, e := range events {
		s = fusebox.Fold(p, s, e)
		steps = append(steps, fmt.Sprintf("%v %d", s.Phase, s.Version))
	}
	return strings.Join(steps, ", ")
}

func TestI1OnlyTheseTransitionsEachBumpsTheVersionByOne(t *testing.T) {
	p := rules(fusebox.Streak(2))
	want(t, "the whole round", trail(p,
		failed("12:00:00", 0), failed("12:00:01", 0), // a rule is met
		worked("12:00:02", 1), failed("12:00:03", 1), // nothing moves an open circuit
		asks("12:01:01", "a", ""),                                                                     // its cooldown is over
		probed("12:01:02", "a", 2, fusebox.Failure),                                                   // the probe fails
		asks("12:02:02", "b", ""), probed("12:02:03", "b", 4, fusebox.Success), failed("12:02:04", 5), // and succeeds
	), "closed 0, open 1, open 1, open 1, half-open 2, open 3, half-open 4, closed 5, closed 5")

	open := fold(p, fusebox.State{}, failed("12:00", 0), failed("12:00", 0))
	for name, e := range map[string]fusebox.Event{
		"a closed circuit is not probed":            asks("12:05", "a", ""),
		"a report that there was a transition":      {Kind: fusebox.KindTransition, At: at("12:05"), Phase: fusebox.Open, Version: 9},
		"the start of a process":                    {Kind: fusebox.KindStart, At: at("12:05")},
		"a kind to come":                            {Kind: "tomorrow", At: at("12:05")},
		"a throttle":                                throttledUntil("12:05", "12:06"),
		"the end of a hold that nobody had begun":   lifted("12:05"),
		"a renewal without a lease":                 {Kind: fusebox.KindLease, Action: fusebox.ActionRenewed, At: at("12:05"), Lease: "x"},
		"a checkpoint of an older version":          {Kind: fusebox.KindCheckpoint, At: at("12:05"), State: &fusebox.State{}},
		"a checkpoint of nothing":                   {Kind: fusebox.KindCheckpoint, At: at("12:05")},
		"a refusal where nothing is refused":        refused("12:05", 3, fusebox.ReasonOpen),
		"a probe's report to a circuit without one": probed("12:05", "x", 0, fusebox.Failure),
	} {
		closed := fold(p, fusebox.State{}, e)
		want(t, name+", closed", fmt.Sprintf("%v %d", closed.Phase, closed.Version), "closed 0")
		if e.Kind == fusebox.KindLease && e.Action == fusebox.ActionGranted {
			continue
		}
		still := fold(p, open, e)
		want(t, name+", open", fmt.Sprintf("%v %d", still.Phase, still.Version), "open 1")
	}
	early := fold(p, open, asks("12:00:59.999999999", "a", ""))
	want(t, "a nanosecond before the deadline", early.Phase, fusebox.Open)
	want(t, "at the deadline", fold(p, open, asks("12:01", "a", "")).Phase, fusebox.HalfOpen)
}

func TestI1TransitionCarriesTheCountThatCausedIt(t *testing.T) {
	for name, test := range map[string]struct {
		trip  fusebox.Trip
		count int
	}{
		"streak": {fusebox.Streak(5), 5},
		"count":  {fusebox.Count(4, time.Hour), 4},
		"of":     {fusebox.Count(3, time.Hour).Of(9), 3},
		"rate":   {fusebox.Rate(0.5, time.Hour, 5), 3}, // of two that worked and three that failed
	} {
		t.Run(name, func(t *testing.T) {
			s := fold(rules(test.trip), fusebox.State{}, worked("12:00", 0), worked("12:00", 0))
			for i := range 9 {
				before := s
				s = fold(rules(test.trip), s, failed(fmt.Sprintf("12:01:%02d", i), 0))
				tr, changed := fusebox.Changed("c", &before, &s)
				if !changed {
					continue
				}
				want(t, "failures", tr.Failures, test.count)
				want(t, "what the state remembers", s.Failures, test.count)
				want(t, "cause", tr.Cause, test.trip.Words())
				want(t, "transition", fmt.Sprint(tr.From, tr.To, tr.Version), "closed open 1")
				want(t, "record of it", string(toEvent(tr).AppendJSON(nil)), fmt.Sprintf(
					`{"at":%q,"kind":"transition","circuit":"c","from":"closed","to":"open","version":1,"failures":%d,"until":%q,"cause":%q}`,
					tr.At.Format(time.RFC3339Nano), test.count, tr.Until.Format(time.RFC3339Nano), tr.Cause))
				return
			}
			t.Error("it never opened")
		})
	}
}

func toEvent(t fusebox.Transition) *fusebox.Event {
	e := t.Event()
	return &e
}

func TestI2ResultVotesOnlyInTheVersionOfItsAdmission(t *testing.T) {
	p := rules(fusebox.Streak(1))
	open := fold(p, fusebox.State{}, failed("12:00", 0))
	half := fold(p, open, asks("12:01", "a", ""))
	closed := fold(p, half, probed("12:02", "a", 2, fusebox.Success))

	want(t, "a late success while open", fold(p, open, worked("12:00:30", 0)).Phase, fusebox.Open)
	want(t, "a late success while half-open", fold(p, half, worked("12:01:30", 0)).Phase, fusebox.HalfOpen)
	want(t, "a late failure while half-open", fold(p, half, failed("12:01:30", 0)).Phase, fusebox.HalfOpen)
	want(t, "a late failure after recovery", fold(p, closed, failed("12:03", 0)).Phase, fusebox.Closed)
	want(t, "a failure of a version to come", fold(p, closed, failed("12:03", 9)).Phase, fusebox.Closed)
	want(t, "a failure of this version", fold(p, closed, failed("12:03", 3)).Phase, fusebox.Open)
	marked := failed("12:03", 3)
	marked.Late = true
	late := fold(p, closed, marked)
	want(t, "one that is marked late", late.Phase, fusebox.Closed)
	want(t, "what it still tells", late.LastFailure, at("12:03"))

	// A foreign report has no version: it votes where its call began.
	foreign := func(clock string, elapsed time.Duration) fusebox.Event {
		return fusebox.Event{At: at(clock), Outcome: fusebox.Failure, Elapsed: elapsed}
	}
	want(t, "a foreign call that began before", fold(p, closed, foreign("12:02:30", 30*time.Second+1)).Phase, fusebox.Closed)
	want(t, "a foreign call that began at that moment", fold(p, closed, foreign("12:02:30", 30*time.Second)).Phase, fusebox.Open)
}

func TestI3NoMoreProbesThanAllowed(t *testing.T) {
	for _, allowed := range []int{1, 2, 5} {
		p := rules(fusebox.Streak(1))
		p.Probe.Concurrent, p.Probe.CloseAfter = allowed, 10
		s := fold(p, fusebox.State{}, failed("12:00", 0))
		for i := range 50 { // all at the deadline
			s = fold(p, s, asks("12:01", fmt.Sprint("t", i), "12:02"))
		}
		want(t, "probes", len(s.Leases), allowed)
		want(t, "another", s.Decide(at("12:01:59.999999999")), fusebox.Decision{Reason: fusebox.ReasonProbing, RetryAfter: 1})
		again := fold(p, s, asks("12:01", "t0", "12:03"))
		want(t, "probes after the first asked again", len(again.Leases), allowed)
		for i := range 50 { // all when the leases lapse
			s = fold(p, s, asks("12:02", fmt.Sprint("u", i), "12:03"))
		}
		want(t, "probes after the leases", len(s.Leases), allowed)
		want(t, "whose", s.HasLease("u0") && !s.HasLease("t0"), true)
	}
}

func TestI4ProbesSlotAlwaysComesBack(t *testing.T) {
	p := rules(fusebox.Streak(1))
	half := fold(p, fusebox.State{}, failed("12:00", 0), asks("12:01", "a", "12:02"))
	released := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionReleased, At: at("12:01:30"), Lease: "a"}

	want(t, "given back", decide(fold(p, half, released), "12:01:30").Probe, true)
	want(t, "lapsed", half.Decide(at("12:02")).Probe, true)
	taken := fold(p, half, asks("12:02", "b", "12:03"))
	for _, o := range []fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Canceled} {
		old := fold(p, taken, probed("12:02:30", "a", 2, o))
		want(t, "phase after the old probe's "+o.String(), old.Phase, fusebox.HalfOpen)
		want(t, "the new probe's slot after it", old.HasLease("b"), true)
	}
	want(t, "phase after the new probe's verdict", fold(p, taken, probed("12:02:30", "b", 2, fusebox.Success)).Phase, fusebox.Closed)
	want(t, "phase after a verdict with another version", fold(p, taken, probed("12:02:30", "b", 1, fusebox.Success)).Phase, fusebox.HalfOpen)
	want(t, "phase after a verdict past the deadline that nobody took over", fold(p, half, probed("12:30", "a", 2, fusebox.Success)).Phase, fusebox.Closed)

	renewed := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionRenewed, At: at("12:01:50"), Lease: "a", Until: at("12:04")}
	want(t, "probe after the lease was renewed", decide(fold(p, half, renewed), "12:03").Probe, false)
	want(t, "probe after the renewed lease", decide(fold(p, half, renewed), "12:04").Probe, true)
	renewed.Lease = "stranger"
	want(t, "leases after a renewal by a stranger", len(fold(p, half, renewed).Leases), 1)
}

func TestI4WhoeverReportsNextSettlesAPickedLease(t *testing.T) {
	p := rules(fusebox.Streak(1))
	pick := asks("12:01", "a", "12:31")
	pick.Pick = true
	half := fold(p, fusebox.State{}, failed("12:00", 0), pick)
	report := func(o fusebox.Outcome, elapsed time.Duration) fusebox.Event {
		return fusebox.Event{At: at("12:10"), Outcome: o, Elapsed: elapsed}
	}
	want(t, "after a success", fold(p, half, report(fusebox.Success, time.Minute)).Phase, fusebox.Closed)
	want(t, "after a failure", fold(p, half, report(fusebox.Failure, time.Minute)).Phase, fusebox.Open)
	want(t, "after a call from before", fold(p, half, report(fusebox.Success, time.Hour)).Phase, fusebox.HalfOpen)
	canceled := fold(p, half, report(fusebox.Canceled, time.Minute))
	want(t, "after a cancel", canceled.Decide(at("12:10")).Probe, true)
	plain := fold(p, fusebox.State{}, failed("12:00", 0), asks("12:01", "a", "12:31"))
	want(t, "a probe of another kind", fold(p, plain, report(fusebox.Success, time.Minute)).Phase, fusebox.HalfOpen)
}

func TestI5CanceledOrThrottledProbeDecidesNothing(t *testing.T) {
	p := rules(fusebox.Streak(1))
	half := fold(p, fusebox.State{}, failed("12:00", 0), asks("12:01", "a", ""))
	want(t, "slot while it runs", half.Decide(at("12:30")).Probe, false)
	for name, test := range map[string]struct {
		e     fusebox.Event
		phase fusebox.Phase
	}{
		"canceled":  {probed("12:01:05", "a", 2, fusebox.Canceled), fusebox.HalfOpen},
		"throttled": {probed("12:01:05", "a", 2, fusebox.Throttled), fusebox.HalfOpen},
		"success":   {probed("12:01:05", "a", 2, fusebox.Success), fusebox.Closed},
		"rejected":  {probed("12:01:05", "a", 2, fusebox.Rejected), fusebox.Closed},
		"failure":   {probed("12:01:05", "a", 2, fusebox.Failure), fusebox.Open},
	} {
		s := fold(p, half, test.e)
		want(t, name, s.Phase, test.phase)
		if test.phase == fusebox.HalfOpen {
			want(t, name+": slot", s.Decide(at("12:01:10")).Probe, true)
			want(t, name+": version", s.Version, half.Version)
		}
	}
	s := fold(p, half, probed("12:01:05", "a", 2, fusebox.Throttled))
	want(t, "decision after a throttled probe", s.Decide(at("12:01:05.5")), fusebox.Decision{Reason: fusebox.ReasonThrottled, RetryAfter: 500 * time.Millisecond})

	p.Probe.CloseAfter = 3
	s = half
	for i := range 3 {
		want(t, "phase before enough successes", s.Phase, fusebox.HalfOpen)
		s = fold(p, s, asks("12:01:05", fmt.Sprint("s", i), ""), probed("12:01:06", "a", 2, fusebox.Success), probed("12:01:06", fmt.Sprint("s", i), 2, fusebox.Success))
	}
	want(t, "phase after enough successes", s.Phase, fusebox.Closed)
}

func TestI6ResultsWhileOpenChangeNeitherPhaseNorDeadline(t *testing.T) {
	p := rules(fusebox.Streak(1))
	open := fold(p, fusebox.State{}, failed("12:00", 0))
	auth := failed("12:00:30", 1)
	auth.Class = fusebox.ClassAuth
	for name, e := range map[string]fusebox.Event{
		"success":             worked("12:00:30", 1),
		"failure":             failed("12:00:30", 1),
		"auth":                auth,
		"late failure":        failed("12:00:30", 0),
		"foreign failure":     {At: at("12:00:30"), Outcome: fusebox.Failure},
		"run of successes":    {At: at("12:00:30"), N: 50, Since: at("12:00:10")},
		"rejected":            {At: at("12:00:30"), Outcome: fusebox.Rejected},
		"canceled":            {At: at("12:00:30"), Outcome: fusebox.Canceled},
		"after the deadline":  failed("12:05", 1),
		"an unknown lease":    probed("12:00:30", "x", 1, fusebox.Success),
		"of a call before it": {At: at("12:00:30"), Outcome: fusebox.Failure, Elapsed: time.Hour},
	} {
		s := fold(p, open, e, e, e)
		want(t, name+": phase", s.Phase, fusebox.Open)
		want(t, name+": deadline", s.Until, open.Until)
		want(t, name+": since", s.Since, open.Since)
		want(t, name+": version", s.Version, open.Version)
		want(t, name+": refusals", s.Refused, 0)
	}
}

func TestI7ClosingClearsMarksAndGrowth(t *testing.T) {
	p := rules(fusebox.Count(3, time.Hour), fusebox.Rate(0.5, time.Hour, 4))
	p.Cooldown = fusebox.Cooldown{After: time.Minute, Growth: 2, Max: 3 * time.Minute}
	s := fold(p, fusebox.State{}, failed("12:00", 0), failed("12:00", 0), failed("12:00", 0))
	var cooldowns []time.Duration
	for i := range 4 { // four failed probes
		cooldowns = append(cooldowns, s.Until.Sub(s.Since))
		token := fmt.Sprint("p", i)
		s = fold(p, s, fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: s.Until, Lease: token})
		s = fold(p, s, fusebox.Event{At: s.Since, Outcome: fusebox.Failure, Admitted: true, Version: s.Version, Lease: token})
	}
	want(t, "cooldowns", fmt.Sprint(cooldowns), "[1m0s 2m0s 3m0s 3m0s]")

	s = fold(p, s, fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: s.Until, Lease: "last"})
	s = fold(p, s, fusebox.Event{At: s.Since, Admitted: true, Version: s.Version, Lease: "last"})
	want(t, "phase", s.Phase, fusebox.Closed)
	want(t, "count after closing", s.CountAt(s.Since), 0)
	v := s.Version
	s = fold(p, s, failed("12:20", v), failed("12:20", v))
	want(t, "phase after two new failures", s.Phase, fusebox.Closed)
	s = fold(p, s, failed("12:20", v))
	want(t, "phase after three", s.Phase, fusebox.Open)
	want(t, "cooldown", s.Until.Sub(s.Since), time.Minute)

	reset := fold(p, s, fusebox.Event{Kind: fusebox.KindReset, At: at("12:21")})
	want(t, "phase after a reset", fmt.Sprint(reset.Phase, reset.CountAt(at("12:21")), reset.FailedProbes), "closed 0 0")
}

func TestI8DenialIsNoEvidence(t *testing.T) {
	p := rules(fusebox.Streak(2), fusebox.Rate(0.5, time.Hour, 2))
	s := fold(p, fusebox.State{}, failed("12:00", 0))
	denied := fold(p, s, refused("12:01", 60_000, fusebox.ReasonThrottled))
	want(t, "count", denied.CountAt(at("12:01")), s.CountAt(at("12:01")))
	want(t, "checked at", denied.Checked, s.Checked)
	want(t, "denied", denied.Denied, 60_000)
	want(t, "health of what was only denied", health(fold(p, fusebox.State{}, refused("12:01", 9, fusebox.ReasonThrottled))), fusebox.Unknown)

	open := fold(p, s, failed("12:02", 0), refused("12:02:10", 1000, fusebox.ReasonOpen))
	want(t, "deadline", open.Until, at("12:03"))
	want(t, "probe at the deadline", open.Decide(at("12:03")).Probe, true)
	want(t, "denied since it opened", open.Denied, 1000)
	want(t, "failures", open.Failures, 2)
}

func health(s fusebox.State) fusebox.Health { return s.HealthAt(at("13:00")) }

func TestI8OnlyRefusalsWhileOpenEndACooldownByCalls(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown = fusebox.Cooldown{Calls: 2}
	s := fold(p, fusebox.State{}, failed("12:00", 0))
	want(t, "deadline", s.Until, time.Time{})
	s = fold(p, s, refused("12:01", 5, fusebox.ReasonThrottled), refused("12:01", 5, fusebox.ReasonThrash), refused("12:01", 1, fusebox.ReasonOpen))
	want(t, "probe after one", s.Decide(at("18:00")), fusebox.Decision{Reason: fusebox.ReasonOpen})
	s = fold(p, s, refused("12:02", 1, fusebox.ReasonOpen))
	want(t, "probe after two", s.Decide(at("12:02")).Probe, true)
	s = fold(p, s, asks("12:02", "a", ""), probed("12:03", "a", 2, fusebox.Failure))
	want(t, "probe after a failed one", s.Decide(at("12:03")).Probe, false)
	want(t, "denied since it opened", s.Denied, 12)
}

func TestI9StateAndDeadlineChangeTogether(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown.Jitter = 0.5
	s := fusebox.State{Seed: 7}
	for i := range 50 {
		s = fold(p, s, fusebox.Event{At: at("12:00").Add(time.Duration(i) * time.Hour), Outcome: fusebox.Failure, Admitted: true, Version: s.Version})
		want(t, "phase", s.Phase, fusebox.Open)
		cooldown := s.Until.Sub(s.Since)
		if cooldown < time.Minute || cooldown > 90*time.Second {
			t.Errorf("a cooldown of %v, want 1m to 1m30s", cooldown)
		}
		want(t, "decision before", s.Decide(s.Until.Add(-1)), fusebox.Decision{Reason: fusebox.ReasonOpen, RetryAfter: 1})
		want(t, "decision at the deadline", s.Decide(s.Until), fusebox.Decision{Probe: true})
		s = fold(p, s, fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: s.Until, Lease: "a"})
		want(t, "half-open until", s.Until, time.Time{})
		s = fold(p, s, fusebox.Event{At: s.Since, Admitted: true, Version: s.Version, Lease: "a"})
		want(t, "closed until", s.Until, time.Time{})
	}
}

func TestI10FutureMarksDoNotCountWhileTheyAreInTheFuture(t *testing.T) {
	p := rules(fusebox.Count(2, time.Minute))
	ahead := failed("12:10", 0)
	ahead.Seen = at("12:00")
	s := fold(p, fusebox.State{}, ahead, failed("12:00:30", 0))
	want(t, "phase while it is in the future", s.Phase, fusebox.Closed)
	want(t, "count", s.CountAt(at("12:00:30")), 1)
	want(t, "phase when its time has come", fold(p, s, failed("12:10:30", 0)).Phase, fusebox.Open)
	for range 1000 { // a broken clock reports and reports
		s = fold(p, s, ahead)
	}
	want(t, "phase after many of the future", s.Phase, fusebox.Closed)
	want(t, "phase after good ones", fold(p, s, failed("12:00:31", 0)).Phase, fusebox.Open)
}

func TestI10WindowsHaveExactEnds(t *testing.T) {
	p := rules(fusebox.Count(2, time.Minute))
	first := fold(p, fusebox.State{}, failed("12:00", 0))
	want(t, "both ends included", fold(p, first, failed("12:01", 0)).Phase, fusebox.Open)
	want(t, "a nanosecond more", fold(p, first, failed("12:01:00.000000001", 0)).Phase, fusebox.Closed)
	want(t, "a clock that steps back within the window", fold(p, first, failed("11:59:30", 0)).Phase, fusebox.Open)
	want(t, "a clock that steps back beyond it", fold(p, first, failed("11:00", 0)).Phase, fusebox.Closed)
	want(t, "and goes on counting there", fold(p, first, failed("11:00", 0), failed("11:00:30", 0)).Phase, fusebox.Open)
}

func TestI11MalformedRecordsStopNothing(t *testing.T) {
	log := `{"at":"2026-11-29T12:01:00Z","outcome":"failure","ms":5000}
not JSON
{"at":"2026-11-29T12:02:00Z","outcome":"fai
{"at":"yesterday","outcome":"failure"}
{"at":"2026-11-29T12:03:00Z","outcome":"exploded"}
{"at":"2026-11-29T12:03:00Z"}
{"at":"2026-11-29T12:04:00Z","kind":"of-tomorrow","outcome":7}
{"at":"2026-11-29T12:05:00Z","kind":"of-tomorrow"}
{"at":"2026-11-29T14:06:00+02:00","outcome":"failure","ms":4000,"mood":"bad"}`
	p := rules(fusebox.Count(2, time.Hour))
	s := fusebox.State{}
	var malformed []int
	for i, line := range strings.Split(log, "\n") {
		e, err := fusebox.ParseEvent([]byte(line))
		if err != nil {
			if !errors.Is(err, fusebox.ErrMalformed) {
				t.Errorf("line %d: %v is no ErrMalformed", i+1, err)
			}
			malformed = append(malformed, i+1)
			continue
		}
		s = fold(p, s, e)
	}
	want(t, "malformed lines", fmt.Sprint(malformed), "[2 3 4 5 6 7]")
	want(t, "phase", s.Phase, fusebox.Open)
	want(t, "opened at", s.Since, at("12:06"))
}

func TestI12NoEvidenceIsUnknownAndUsable(t *testing.T) {
	var s fusebox.State
	want(t, "health", s.HealthAt(at("12:00")), fusebox.Unknown)
	want(t, "decision", s.Decide(at("12:00")), fusebox.Decision{Go: true})
	s = fold(rules(fusebox.Streak(1)), s, fusebox.Event{At: at("12:00"), Outcome: fusebox.Canceled})
	want(t, "health after a cancel", health(s), fusebox.Unknown)
	s = fold(rules(fusebox.Streak(1)), s, worked("12:01", 0))
	want(t, "health after a success", health(s), fusebox.Up)
	s = fold(rules(fusebox.Streak(1)), s, failed("12:02", 0))
	want(t, "health after a failure", health(s), fusebox.Down)
	want(t, "health past its deadline until somebody asks", s.HealthAt(at("18:00")), fusebox.Down)
	want(t, "wait past its deadline", s.StatusAt("c", at("18:00")).RetryAfter, 0)
}

func TestI13ThrottledIsNotDown(t *testing.T) {
	p := rules(fusebox.Streak(1), fusebox.Rate(0.1, time.Hour, 1))
	s := fusebox.State{}
	for range 20 {
		s = fold(p, s, throttledUntil("12:00", "12:00:02"))
	}
	want(t, "phase", s.Phase, fusebox.Closed)
	want(t, "health", health(s), fusebox.Up)
	want(t, "while throttled", s.Decide(at("12:00:01")), fusebox.Decision{Reason: fusebox.ReasonThrottled, RetryAfter: time.Second})
	want(t, "at its end", s.Decide(at("12:00:02")), fusebox.Decision{Go: true})

	earlier := fold(p, s, throttledUntil("12:00", "12:00:01"))
	want(t, "another that ends earlier shortens nothing", earlier.Throttled, at("12:00:02"))
	absurd := fold(p, s, fusebox.Event{At: at("12:00"), Outcome: fusebox.Throttled, Until: at("12:00").AddDate(150, 0, 0)})
	want(t, "an absurd one", absurd.Throttled, at("12:00").Add(24*time.Hour))

	s = fusebox.State{}
	var waits []time.Duration
	for range 8 { // no time given
		e := fusebox.Event{At: at("12:00"), Outcome: fusebox.Throttled}
		if !s.Throttled.IsZero() {
			e.At = s.Throttled
		}
		s = fold(p, s, e)
		waits = append(waits, s.Throttled.Sub(e.At))
	}
	want(t, "waits", fmt.Sprint(waits), "[1s 2s 4s 8s 16s 32s 1m0s 1m0s]")
	s = fold(p, s, worked("13:00", 0), fusebox.Event{At: at("13:01"), Outcome: fusebox.Throttled})
	want(t, "first wait after a success", s.Throttled, at("13:01:01"))
}

func TestI14HoldBeatsTheRulesAndLiftingAlwaysWorks(t *testing.T) {
	p := rules(fusebox.Streak(1))
	closed := fold(p, fusebox.State{}, worked("12:00", 0))
	open := fold(p, closed, failed("12:00", 0))
	half := fold(p, open, asks("12:01", "a", ""))
	for name, from := range map[string]fusebox.State{"closed": closed, "open": open, "half-open": half} {
		heldOpen := fold(p, from, held("12:02", fusebox.Open, ""))
		want(t, name+" held open", heldOpen.Decide(at("12:30")), fusebox.Decision{Reason: fusebox.ReasonHeld})
		want(t, name+" held open: version", heldOpen.Version, from.Version+1)
		still := fold(p, heldOpen, worked("12:03", heldOpen.Version), probed("12:03", "a", heldOpen.Version, fusebox.Success),
			asks("12:30", "b", ""), fusebox.Event{Kind: fusebox.KindReset, At: at("12:30")})
		want(t, name+" held open: after all that", still.Decide(at("12:30")), fusebox.Decision{Reason: fusebox.ReasonHeld})
		want(t, name+" held open: status", still.StatusAt("c", at("12:30")).Held.To, fusebox.Open)
		freed := fold(p, still, lifted("12:31"))
		want(t, name+" held open: lifted", freed.Decide(at("12:31")), fusebox.Decision{Probe: true})
		want(t, name+" held open: version when lifted", freed.Version, heldOpen.Version+1)

		heldClosed := fold(p, from, held("12:02", fusebox.Closed, ""))
		still = heldClosed
		for range 10 {
			still = fold(p, still, failed("12:03", still.Version), fusebox.Event{Kind: fusebox.KindTrip, At: at("12:03")})
		}
		want(t, name+" held closed", still.Decide(at("12:30")), fusebox.Decision{Go: true})
		freed = fold(p, still, lifted("12:31"))
		want(t, name+" held closed: lifted", fmt.Sprint(freed.Decide(at("12:31")).Go, freed.CountAt(at("12:31"))), "true 0")
		want(t, name+" held closed: rules again", fold(p, freed, failed("12:32", freed.Version)).Phase, fusebox.Open)
	}
	timed := fold(p, open, held("12:00:10", fusebox.Open, "12:10"))
	want(t, "a hold with an end", timed.Decide(at("12:09")), fusebox.Decision{Reason: fusebox.ReasonHeld, RetryAfter: time.Minute})
	want(t, "a hold at its end", timed.Decide(at("12:10")), fusebox.Decision{Probe: true})
	timed = fold(p, closed, held("12:00:10", fusebox.Closed, "12:10"), throttledUntil("12:05", "12:06"))
	want(t, "a throttle beats a hold at closed", timed.Decide(at("12:05:30")).Reason, fusebox.ReasonThrottled)
	want(t, "a hold at closed at its end", timed.Decide(at("12:10")), fusebox.Decision{Go: true})
	long := fold(p, closed, failed("12:00", 0), held("12:00:10", fusebox.Open, ""), lifted("12:00:20"))
	want(t, "the rest of a cooldown that a hold interrupted", long.Decide(at("12:00:30")).RetryAfter, 30*time.Second)
}

func TestI16TheSameEventsGiveTheSameState(t *testing.T) {
	p := rules(fusebox.Streak(2))
	p.Cooldown.Jitter = 1
	events := []fusebox.Event{
		failed("12:00", 0), failed("12:00", 0), refused("12:01", 3, fusebox.ReasonOpen), asks("12:10", "a", "12:11"),
		probed("12:10:30", "a", 2, fusebox.Failure), asks("12:20", "b", "12:21"), probed("12:20:30", "b", 4, fusebox.Success),
	}
	seed := fusebox.State{Seed: 42}
	once := fold(p, seed, events...)
	want(t, "folded again", stateText(fold(p, seed, events...)), stateText(once))
	want(t, "told twice over by transitions", stateText(fold(p, seed, slices.Insert(slices.Clone(events), 2,
		fusebox.Event{Kind: fusebox.KindTransition, At: at("12:00"), From: fusebox.Closed, Phase: fusebox.Open, Version: 1})...)), stateText(once))
	half := fold(p, seed, events[:4]...)
	checkpoint := fusebox.Event{Kind: fusebox.KindCheckpoint, At: at("12:10"), State: &half}
	resumed := fold(p, fusebox.State{}, append([]fusebox.Event{checkpoint}, events[4:]...)...)
	resumed.Revision = once.Revision
	want(t, "resumed from a checkpoint", stateText(resumed), stateText(once))
	other := fold(p, fusebox.State{Seed: 43}, events[:2]...)
	want(t, "another seed has the same deadline", other.Until.Equal(fold(p, seed, events[:2]...).Until), false)
}

func stateText(s fusebox.State) string { return text(&s) }

func TestI19MarksAndWindowsAreBounded(t *testing.T) {
	for name, trip := range map[string]fusebox.Trip{
		"streak": fusebox.Streak(1000),
		"count":  fusebox.Count(10, time.Minute),
		"of":     fusebox.Count(5, time.Hour).Of(5),
		"rate":   fusebox.Rate(1, time.Hour, 100),
		"slow":   fusebox.Slow(1, time.Second, time.Hour, 100),
	} {
		for _, distinct := range []bool{false, true} {
			p := rules(trip)
			p.Distinct = distinct
			s := fusebox.State{}
			now := at("12:00")
			for i := range 2500 {
				now = now.Add(7 * time.Second)
				s = fold(p, s, fusebox.Event{At: now, Admitted: true, Version: s.Version},
					called(fusebox.Event{At: now, Outcome: fusebox.Failure, Admitted: true, Version: s.Version}, "r", fmt.Sprint(i)))
				if n := len(s.Marks); n > 2*1000 || n > 2*64 && name != "streak" {
					t.Fatalf("%s: %d marks after %d failures", name, n, i+1)
				}
				for _, w := range s.Windows {
					if len(w.Buckets) > 20 {
						t.Fatalf("%s: %d buckets", name, len(w.Buckets))
					}
				}
			}
			want(t, name+": phase", s.Phase, fusebox.Closed)
			if n := len(text(&s)); n > 8000 && name != "streak" {
				t.Errorf("%s, distinct %v: a state of %d bytes", name, distinct, n)
			}
		}
	}
}
