package main

import (
	"slices"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func failure(minutes int) fusebox.Event {
	return fusebox.Event{At: at(minutes), Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Elapsed: time.Second}
}

func success(minutes int) fusebox.Event {
	return fusebox.Event{At: at(minutes), Outcome: fusebox.Success, Elapsed: time.Second}
}

// explained applies the events under p and explains the circuit.
func explained(t *testing.T, p fusebox.Policy, events ...fusebox.Event) *explanation {
	t.Helper()
	store := fusebox.NewMemory()
	defer store.Close()
	if _, err := store.Apply(t.Context(), "session/a", p, events...); err != nil {
		t.Fatal(err)
	}
	x, err := explain(t.Context(), store, "session/a")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func countPolicy() fusebox.Policy {
	p := fusebox.DefaultPolicy("session")
	p.Trip = []fusebox.Trip{fusebox.Count(3, time.Hour)}
	p.Cooldown = fusebox.Cooldown{After: time.Hour}
	return p
}

func streakPolicy() fusebox.Policy {
	p := countPolicy()
	p.Trip = []fusebox.Trip{fusebox.Streak(2)}
	return p
}

// counted lists the minutes of the records that counted.
func (x *explanation) counted() []int {
	var minutes []int
	for _, r := range x.Records {
		if r.Counted {
			minutes = append(minutes, int(r.Event.At.Sub(noon)/time.Minute))
		}
	}
	return minutes
}

func TestWhyMarksTheFailuresOfTheHostWhoseOwnCircuitOpened(t *testing.T) {
	p := streakPolicy()
	p.Trip, p.Quorum = []fusebox.Trip{fusebox.Streak(3)}, 3
	of := func(host string, e fusebox.Event) fusebox.Event {
		e.Worker = host + ":1"
		return e
	}
	x := explained(t, p, of("c", success(-1)), of("a", failure(0)), of("b", failure(1)), of("a", failure(2)), of("a", failure(3)), of("c", success(4)))
	if have := x.counted(); !slices.Equal(have, []int{0, 2, 3}) {
		t.Errorf("counted: %v, want those of the host", have)
	}
}

func TestWhyMarksTheRecordsThatCounted(t *testing.T) {
	late := failure(9)
	late.Late = true
	tests := []struct {
		name   string
		policy fusebox.Policy
		events []fusebox.Event
		want   []int
	}{
		{"interleaved: three failures within the hour, a success erases nothing", countPolicy(),
			[]fusebox.Event{failure(0), failure(3), success(5), failure(9)}, []int{0, 3, 9}},
		{"a failure that the window has left behind", countPolicy(),
			[]fusebox.Event{failure(-120), failure(0), failure(3), failure(9)}, []int{0, 3, 9}},
		{"a late failure has no vote", countPolicy(),
			[]fusebox.Event{failure(0), failure(3), late, failure(10)}, []int{0, 3, 10}},
		{"a streak begins after the success", streakPolicy(),
			[]fusebox.Event{failure(0), success(1), failure(3), failure(4)}, []int{3, 4}},
		{"a class opens at once", countPolicy(),
			[]fusebox.Event{failure(0), {At: at(1), Outcome: fusebox.Failure, Class: fusebox.ClassAuth}}, []int{1}},
		{"an operator opened it", countPolicy(),
			[]fusebox.Event{failure(0), {Kind: fusebox.KindTrip, At: at(1), Cause: "by ann"}}, []int{0, 1}},
		{"results while open do not count", countPolicy(),
			[]fusebox.Event{failure(0), failure(3), failure(9), failure(10), success(11)}, []int{0, 3, 9}},
		{"a reset: what came before counts no more", countPolicy(),
			[]fusebox.Event{failure(0), failure(3), failure(9), {Kind: fusebox.KindReset, At: at(20)}}, []int{20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := explained(t, tt.policy, tt.events...)
			if got := x.counted(); !equal(got, tt.want) {
				t.Errorf("want the records of minutes %v, have %v", tt.want, got)
				for _, r := range x.Records {
					t.Logf("%v %s counted=%v: %s", r.Event.At, eventWords(&r.Event), r.Counted, r.Effect)
				}
			}
		})
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestWhySaysWhatTheRecordsDid(t *testing.T) {
	x := explained(t, countPolicy(), failure(0), failure(3), success(5), failure(9), failure(10),
		fusebox.Event{Kind: fusebox.KindDenied, At: at(11), Reason: fusebox.ReasonOpen, N: 4})
	want := []string{"a failure", "a failure", "", "closed → open: 3 failures within 1h, until", "no vote while open", "refused"}
	if len(x.Records) != len(want) {
		t.Fatalf("want %d records, have %d", len(want), len(x.Records))
	}
	for i, w := range want {
		if got := x.Records[i].Effect; len(got) < len(w) || got[:len(w)] != w || w == "" && got != "" {
			t.Errorf("record %d: want %q, have %q", i, w, got)
		}
	}
}

func TestWhyIsBounded(t *testing.T) {
	var events []fusebox.Event
	for i := range maxRecords + 10 {
		events = append(events, success(i))
	}
	x := explained(t, countPolicy(), events...)
	if len(x.Records) != maxRecords || x.Omitted != 10 {
		t.Errorf("want %d records and 10 omitted, have %d and %d", maxRecords, len(x.Records), x.Omitted)
	}
}
