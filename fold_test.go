package fusebox_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// at reads a time of one fixed day: "12:09", "12:09:30", "12:09:30.5".
func at(clock string) time.Time {
	if strings.Count(clock, ":") == 1 {
		clock += ":00"
	}
	t, err := time.Parse("2006-01-02 15:04:05", "2026-11-29 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

// An event of a call that was admitted in the given version.
func failed(clock string, version uint64) fusebox.Event {
	return fusebox.Event{At: at(clock), Outcome: fusebox.Failure, Class: fusebox.ClassServer, Admitted: true, Version: version}
}

func worked(clock string, version uint64) fusebox.Event {
	return fusebox.Event{At: at(clock), Outcome: fusebox.Success, Admitted: true, Version: version}
}

// asks is a request for a probe's slot, with a lease until the given time.
func asks(clock, token, until string) fusebox.Event {
	e := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at(clock), Lease: token}
	if until != "" {
		e.Until = at(until)
	}
	return e
}

// probed is a probe's report.
func probed(clock, token string, version uint64, o fusebox.Outcome) fusebox.Event {
	return fusebox.Event{At: at(clock), Outcome: o, Admitted: true, Version: version, Lease: token}
}

func refused(clock string, n int, why fusebox.Reason) fusebox.Event {
	return fusebox.Event{Kind: fusebox.KindDenied, At: at(clock), N: n, Reason: why}
}

func throttledUntil(clock, until string) fusebox.Event {
	return fusebox.Event{At: at(clock), Outcome: fusebox.Throttled, Admitted: true, Until: at(until)}
}

func held(clock string, to fusebox.Phase, until string) fusebox.Event {
	e := fusebox.Event{Kind: fusebox.KindHold, Action: fusebox.ActionHeld, At: at(clock), Phase: to}
	if until != "" {
		e.Until = at(until)
	}
	return e
}

func lifted(clock string) fusebox.Event {
	return fusebox.Event{Kind: fusebox.KindHold, Action: fusebox.ActionLifted, At: at(clock)}
}

// rules is a policy of these rules with a cooldown of a minute and one probe.
func rules(trip ...fusebox.Trip) fusebox.Policy {
	return fusebox.Policy{
		Trip: trip, OnClass: []fusebox.Class{fusebox.ClassAuth},
		Cooldown: fusebox.Cooldown{After: time.Minute}, Probe: fusebox.Probe{Concurrent: 1, CloseAfter: 1},
	}
}

func fold(p fusebox.Policy, s fusebox.State, events ...fusebox.Event) fusebox.State {
	for _, e := range events {
		s = fusebox.Fold(p, s, e)
	}
	return s
}

func want[T comparable](t *testing.T, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

func TestStateWritesMarksAsNumbers(t *testing.T) {
	s := fold(rules(fusebox.Count(3, time.Hour)), fusebox.State{}, failed("12:01", 0), failed("12:02", 0))
	b, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"marks":[1795953660000000000,1,0,60000000000,1,0]`) {
		t.Errorf("the marks are not three numbers each: %s", b)
	}
}

// Whoever asked may have looked just before another worker's 429 arrived.
func TestNoProbeWhileThrottled(t *testing.T) {
	p := rules(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, failed("12:00", 0), throttledUntil("12:00", "12:05"))
	s = fold(p, s, asks("12:03", "early", ""))
	want(t, "phase while throttled", s.Phase, fusebox.Open)
	resort := asks("12:03", "resort", "")
	resort.LastResort = true
	want(t, "phase after a last resort while throttled", fold(p, s, resort).Phase, fusebox.Open)
	want(t, "phase after the throttle", fold(p, s, asks("12:05", "later", "")).Phase, fusebox.HalfOpen)
}

func TestHoldLeavesCooldownByCalls(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown = fusebox.Cooldown{Calls: 2}
	open := fold(p, fusebox.State{}, failed("12:00", 0), refused("12:01", 1, fusebox.ReasonOpen))
	for name, s := range map[string]fusebox.State{
		"lifted":  fold(p, open, held("12:02", fusebox.Open, ""), refused("12:03", 5, fusebox.ReasonHeld), lifted("12:04")),
		"run out": fold(p, open, held("12:02", fusebox.Open, "12:04"), refused("12:03", 5, fusebox.ReasonHeld)),
	} {
		want(t, name+": probe after one refusal of two", s.Decide(at("12:05")).Probe, false)
		s = fold(p, s, refused("12:06", 1, fusebox.ReasonOpen))
		want(t, name+": probe after two refusals", s.Decide(at("12:07")).Probe, true)
	}
}

func called(e fusebox.Event, run, call string) fusebox.Event {
	e.Run, e.Call = run, call
	return e
}

// Two reports of one exact call, of which the later one overtook the other.
func TestDistinctSeesRepeatOutOfOrder(t *testing.T) {
	p := rules(fusebox.Count(2, time.Minute))
	p.Distinct = true
	s := fold(p, fusebox.State{},
		called(failed("12:00:05", 0), "r", "lookup(1)"), called(failed("12:00:04", 0), "r", "lookup(1)"))
	want(t, "phase after one call twice", s.Phase, fusebox.Closed)
	s = fold(p, s, called(failed("12:00:06", 0), "r", "lookup(2)"))
	want(t, "phase after two calls", s.Phase, fusebox.Open)
}

// A count among the last results forgets failures for tripping long before
// they leave the window in which a repeat of them is none.
func TestDistinctRemembersBeyondTheThreshold(t *testing.T) {
	for _, trip := range []fusebox.Trip{fusebox.Count(2, time.Minute).Of(2), fusebox.Rate(0.5, time.Minute, 2)} {
		p := rules(trip)
		p.Distinct = true
		s := fold(p, fusebox.State{}, worked("12:00:00", 0), worked("12:00:00", 0), worked("12:00:00", 0))
		for _, call := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			s = fold(p, s, called(failed("12:00:01", 0), "r", call), worked("12:00:01", 0), worked("12:00:01", 0))
		}
		votes := s.Votes
		s = fold(p, s, called(failed("12:00:02", 0), "r", "a"))
		want(t, trip.String()+": phase", s.Phase, fusebox.Closed)
		want(t, trip.String()+": votes after a repeat", s.Votes, votes)
	}
}

// A run is recorded as one line but stands for calls whose ends are spread
// evenly, the first and the last of them at its ends.
func TestRunOfSuccessesFillsTheWindowAsItsCallsWould(t *testing.T) {
	p := rules(fusebox.Rate(1, 20*time.Second, 100))
	run := fusebox.Event{At: at("12:00:09.5"), Since: at("12:00:00.5"), N: 4}
	var one, each fusebox.State
	one = fold(p, one, run)
	for _, clock := range []string{"12:00:00.5", "12:00:03.5", "12:00:06.5", "12:00:09.5"} {
		each = fold(p, each, fusebox.Event{At: at(clock)})
	}
	if !reflect.DeepEqual(one.Windows, each.Windows) {
		t.Errorf("window\nof the run   %+v\nof its calls %+v", one.Windows, each.Windows)
	}
	run.Since = at("11:59:00.5") // 4 calls, 23 s apart: only the last lies in the window
	one = fold(p, fusebox.State{}, run)
	want(t, "calls in the window of a longer run", one.Windows[0].Buckets[len(one.Windows[0].Buckets)-1], fusebox.Bucket{All: 1})
	want(t, "buckets", len(one.Windows[0].Buckets), 1)
}

// A hold is to open or to closed. One that named nothing used to hold closed.
func TestOnlyWhatAHoldSaysIsHeld(t *testing.T) {
	p := rules(fusebox.Streak(1))
	for name, e := range map[string]fusebox.Event{
		"half-open":          held("12:01", fusebox.HalfOpen, ""),
		"an unknown action":  {Kind: fusebox.KindHold, At: at("12:01"), Action: "hugged"},
		"a lease unheard of": {Kind: fusebox.KindLease, At: at("12:01"), Action: "borrowed", Lease: "t"},
	} {
		s := fold(p, fusebox.State{}, failed("12:00", 0), e)
		want(t, name+": phase", s.PhaseAt(at("12:02")), fusebox.Open)
		want(t, name+": version", s.Version, 1)
	}
}

// Each report is older than the one before, by less than a window: the window
// once grew by 19 buckets with each.
func TestI19WindowIsBoundedWhenReportsComeBackwards(t *testing.T) {
	p := rules(fusebox.Rate(1, 20*time.Second, 1000))
	s := fusebox.State{}
	for i := range 500 {
		e := fusebox.Event{At: at("12:00").Add(-time.Duration(i) * 15 * time.Second)}
		s = fold(p, s, e)
		if n := len(s.Windows[0].Buckets); n > 20 {
			t.Fatalf("%d buckets after %d reports", n, i+1)
		}
	}
}

// Counts of a busy window once overflowed 64 bits when they were compared.
func TestHugeCountsAreComparedExactly(t *testing.T) {
	p := rules(fusebox.Slow(0.5, time.Second, time.Minute, 1))
	s := fusebox.State{}
	for range 20 {
		s = fold(p, s, fusebox.Event{At: at("12:00"), N: math.MaxInt})
	}
	slow := fusebox.Event{At: at("12:00"), N: math.MaxInt, Elapsed: 2 * time.Second}
	for range 19 {
		s = fold(p, s, slow)
		want(t, "phase below the share", s.Phase, fusebox.Closed)
	}
	want(t, "phase at the share", fold(p, s, slow).Phase, fusebox.Open)
}

func TestRefusalsDoNotOverflow(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown = fusebox.Cooldown{Calls: 2}
	s := fold(p, fusebox.State{}, failed("12:00", 0))
	for range 9 {
		s = fold(p, s, refused("12:01", math.MaxInt, fusebox.ReasonOpen))
		want(t, "probe after refusals without number", s.Decide(at("12:02")).Probe, true)
	}
}

// A cooldown of nothing that has grown a thousand times is still nothing.
func TestNoCooldownDoesNotGrow(t *testing.T) {
	p := rules(fusebox.Streak(1))
	p.Cooldown = fusebox.Cooldown{Growth: 100}
	s := fold(p, fusebox.State{}, failed("12:00", 0))
	for range 1000 {
		s = fold(p, s, asks("12:00", "t", ""))
		s = fold(p, s, probed("12:00", "t", s.Version, fusebox.Failure))
		want(t, "end of the cooldown", s.Until, at("12:00"))
	}
}

// A new configuration with a longer window numbers its buckets otherwise: the
// old ones looked as if they lay in the far future, and nothing counted again.
func TestWindowsBeginAnewWithOtherRules(t *testing.T) {
	old := rules(fusebox.Rate(0.5, 20*time.Second, 100))
	s := fold(old, fusebox.State{}, failed("12:00", 0))
	changed := rules(fusebox.Rate(0.5, 20*time.Minute, 2))
	changed.Loaded = at("12:00")
	foreign := func(clock string) fusebox.Event { return fusebox.Event{At: at(clock), Outcome: fusebox.Failure} }
	s = fold(changed, s, foreign("12:01"))
	want(t, "phase after one failure", s.Phase, fusebox.Closed)
	s = fold(changed, s, foreign("12:02"))
	want(t, "phase after two", s.Phase, fusebox.Open)
}

// Of many marks of the future only the last were kept, whatever their times:
// when the time of the others came, nothing counted.
func TestMarksOfTheFutureCountWhenTheirTimeComes(t *testing.T) {
	p := rules(fusebox.Count(1, 10*time.Second))
	ahead := func(clock string) fusebox.Event {
		e := failed(clock, 0)
		e.Seen = at("12:00")
		return e
	}
	s := fold(p, fusebox.State{}, ahead("12:00:01"), ahead("12:00:01"), ahead("12:00:02"))
	want(t, "count", s.CountAt(at("12:00")), 0)
	want(t, "count when the first two have come", s.CountAt(at("12:00:01")), 2)
	want(t, "count when all have come", s.CountAt(at("12:00:02")), 3)
	want(t, "count when the first two have left", s.CountAt(at("12:00:11.5")), 1)
	for range 1000 { // a broken clock reports and reports
		s = fold(p, s, ahead("13:00"))
	}
	want(t, "count of the soonest after many later ones", s.CountAt(at("12:00:02")), 3)
	if len(s.Marks) > 100 {
		t.Errorf("I19: %d marks", len(s.Marks))
	}
}

func TestI10StatesAreInUTC(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	p := rules(fusebox.Streak(3))
	e := failed("12:00", 0)
	e.At = e.At.In(zone)
	s := fold(p, fusebox.State{}, e, throttledUntil("12:01", "12:02"))
	lease := asks("12:05", "t", "12:06")
	hold := held("12:07", fusebox.Open, "12:08")
	trip := fusebox.Event{Kind: fusebox.KindTrip, At: at("12:02")}
	for _, e := range []fusebox.Event{trip, lease, hold} {
		e.At, e.Until = e.At.In(zone), e.Until.In(zone)
		if e.Until.Equal(time.Time{}) {
			e.Until = time.Time{}
		}
		s = fold(p, s, e)
		if b := text(&s); strings.Contains(b, "+02:00") {
			t.Errorf("after %s: %s", e.Kind, b)
		}
	}
}

func TestI10ClockSetBackDoesNotPinOpen(t *testing.T) {
	p := rules(fusebox.Streak(1))
	open := fold(p, fusebox.State{}, failed("12:00", 0))

	want(t, "wait that a clock an hour behind shows", open.Decide(at("11:00")).RetryAfter, time.Minute)
	behind := fold(p, open, refused("11:00", 1, fusebox.ReasonOpen))
	want(t, "version", behind.Version, open.Version)
	want(t, "probe a cooldown after it was seen", behind.Decide(at("11:00:59")).Probe, false)
	want(t, "probe a cooldown after it was seen", behind.Decide(at("11:01")).Probe, true)

	late := fold(p, open, refused("11:59:10", 3, fusebox.ReasonOpen))
	want(t, "deadline after a refusal that was reported late", late.Until, at("12:01"))
}

func TestI10ClockSetBackDoesNotPinHalfOpen(t *testing.T) {
	p := rules(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, failed("12:00", 0), asks("12:01", "a", "12:02"))
	s = fold(p, s, refused("11:00", 1, fusebox.ReasonProbing))
	want(t, "probe within the lease", s.Decide(at("11:00:59")).Probe, false)
	want(t, "probe after the lease", s.Decide(at("11:01")).Probe, true)
}

// Without the old clock nobody can tell how much of a cooldown is over, but a
// clock that is ahead for a moment must not end it in the state.
func TestI10FutureEvidenceMovesNoDeadline(t *testing.T) {
	p := rules(fusebox.Streak(1))
	s := fold(p, fusebox.State{}, failed("12:00", 0))
	ahead := failed("13:00", s.Version)
	ahead.Seen = at("12:00:30")
	s = fold(p, s, ahead, throttledAhead())
	want(t, "deadline", s.Until, at("12:01"))
	want(t, "throttle", s.Throttled, at("12:00:45").Add(24*time.Hour))
}

// throttledAhead is a throttle of a day and more by a clock that is an hour ahead.
func throttledAhead() fusebox.Event {
	e := throttledUntil("13:00:45", "13:00")
	e.Until = e.At.Add(24 * time.Hour)
	e.Seen = at("12:00:45")
	return e
}

// Where a throttle names no time the wait doubles; a result without a vote
// must not begin it anew.
func TestI2LateSuccessLeavesTheThrottle(t *testing.T) {
	p := rules(fusebox.Streak(1))
	unnamed := fusebox.Event{At: at("12:00"), Outcome: fusebox.Throttled, Admitted: true}
	again := unnamed
	again.At = at("12:01")
	success := worked("12:00:30", 0)
	want(t, "wait after a success", fold(p, fusebox.State{}, unnamed, success, again).Throttled, at("12:01:01"))
	success.Late = true
	want(t, "wait after a late one", fold(p, fusebox.State{}, unnamed, success, again).Throttled, at("12:01:02"))
}
