package fusebox_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"pgregory.net/rapid"
)

func TestPolicySurvivesJSON(t *testing.T) {
	tests := map[string]fusebox.Policy{
		"zero":       {},
		"no circuit": {Trip: []fusebox.Trip{}},
		"no classes": {OnClass: []fusebox.Class{}},
		"observed":   {Observe: true},
		"a growth":   {Cooldown: fusebox.Cooldown{After: time.Second, Growth: 1.5, Jitter: 0.123456789, Max: 90 * time.Minute}},
		"loaded":     {Trip: []fusebox.Trip{}, Loaded: at("12:00:00.123456789")},
		"model":      fusebox.DefaultPolicy("model"),
		"tool":       fusebox.DefaultPolicy("tool"),
		"session":    fusebox.DefaultPolicy("session"),
		"shares": rules(fusebox.Rate(0.495, 90*time.Second, 20),
			fusebox.Slow(0.3, 1500*time.Millisecond, 2*time.Hour, 7), fusebox.Count(3, time.Minute).Of(7)),
	}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var q fusebox.Policy
			if err := json.Unmarshal(b, &q); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if !reflect.DeepEqual(p, q) {
				t.Errorf("%s\nhave %+v\nwant %+v", b, q, p)
			}
			want(t, "stands for the kind's", q.IsZero(), p.IsZero())
		})
	}
}

func TestPolicySurvivesJSONWhateverItIs(t *testing.T) {
	check(t, 300, func(t *rapid.T) {
		p := drawPolicy(t).policy()
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q fusebox.Policy
		if err := json.Unmarshal(b, &q); err != nil || !p.Equal(q) {
			t.Fatalf("%v: %s\nhave %+v\nwant %+v", err, b, q, p)
		}
	})
}

func TestParseTrip(t *testing.T) {
	tests := []struct {
		in   string
		want fusebox.Trip
		bad  string
	}{
		{in: "streak=3", want: fusebox.Streak(3)},
		{in: "count=3,within=60m", want: fusebox.Count(3, time.Hour)},
		{in: " count=3 , within=1h ", want: fusebox.Count(3, time.Hour)},
		{in: "count=5,of=10,within=60s", want: fusebox.Count(5, time.Minute).Of(10)},
		{in: "rate=0.5,within=60s,calls=20", want: fusebox.Rate(0.5, time.Minute, 20)},
		{in: "slow=0.5,limit=10s,within=60s,calls=20", want: fusebox.Slow(0.5, 10*time.Second, time.Minute, 20)},
		{in: "", bad: "key=value"},
		{in: "streak", bad: "key=value"},
		{in: "streak=", bad: "key=value"},
		{in: "streak=0", bad: "threshold"},
		{in: "streak=-3", bad: "threshold"},
		{in: "streak=3.5", bad: "whole number"},
		{in: "streak=100001", bad: "threshold"},
		{in: "streak=3,streak=4", bad: "twice"},
		{in: "streak=3,within=60m", bad: "does not go with"},
		{in: "count=3", bad: "lacks within"},
		{in: "within=60m,count=3", bad: "first"},
		{in: "count=3,within=60", bad: "duration"},
		{in: "count=3,within=0s", bad: "1ms"},
		{in: "count=3,within=-1m", bad: "1ms"},
		{in: "count=5,of=4,within=1m", bad: "at least the count"},
		{in: "rate=0,within=1m,calls=1", bad: "share"},
		{in: "rate=1.1,within=1m,calls=1", bad: "share"},
		{in: "rate=NaN,within=1m,calls=1", bad: "share"},
		{in: "rate=half,within=1m,calls=1", bad: "share such as"},
		{in: "slow=0.5,limit=0s,within=1m,calls=1", bad: "above 0"},
		{in: "errors=3", bad: "first"},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			have, err := fusebox.ParseTrip(test.in)
			if test.bad == "" {
				if err != nil || have != test.want {
					t.Errorf("have %v, %v; want %v", have, err, test.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.bad) {
				t.Errorf("error %v, want one that says %q", err, test.bad)
			}
		})
	}
}

func TestPolicyValidateNamesEachMistake(t *testing.T) {
	p := fusebox.Policy{
		Trip:       []fusebox.Trip{fusebox.Streak(0), {}, fusebox.Streak(1).Of(2)},
		OnClass:    []fusebox.Class{"bad luck"},
		FasterThan: -1, Overdue: -1,
		Cooldown: fusebox.Cooldown{After: time.Minute, Calls: 2, Jitter: 2, Growth: 0.5, Max: time.Second},
		Probe:    fusebox.Probe{Attempts: -1, Lease: -1},
	}
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"trip.streak", "policy: trip:", "trip.of", "on_class", "faster_than", "overdue", "cooldown:", "cooldown.jitter",
		"cooldown.growth", "cooldown.max", "probe.concurrent", "probe.close_after", "probe.attempts", "probe.lease"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("nothing is said of %s in:\n%v", field, err)
		}
	}
	for _, kind := range []string{"model", "tool", "session", "server", ""} {
		if err := fusebox.DefaultPolicy(kind).Validate(); err != nil {
			t.Errorf("the policy built in for %q: %v", kind, err)
		}
	}
}

// Two of these began "opens at at".
func TestPolicyInWords(t *testing.T) {
	auth := []fusebox.Class{fusebox.ClassAuth}
	tests := []struct {
		trip  []fusebox.Trip
		class []fusebox.Class
		want  string
	}{
		{nil, nil, "no circuit: nothing opens it"},
		{nil, auth, "opens at once on auth"},
		{[]fusebox.Trip{fusebox.Streak(1)}, auth, "opens at the first failure, or at once on auth"},
		{[]fusebox.Trip{fusebox.Count(5, time.Minute).Of(10), fusebox.Streak(5)}, nil, "opens at 5 failures among the last 10 results within 1m, or 5 failures in a row"},
		{[]fusebox.Trip{fusebox.Rate(0.5, time.Minute, 20)}, nil, "opens at 50 % failures among at least 20 results within 1m"},
		{[]fusebox.Trip{fusebox.Slow(0.5, 10*time.Second, time.Minute, 20)}, nil, "opens at 50 % slower than 10s among at least 20 results within 1m"},
	}
	for _, tt := range tests {
		p := fusebox.DefaultPolicy("model")
		p.Trip, p.OnClass = tt.trip, tt.class
		if got := p.Words()[0]; got != tt.want {
			t.Errorf("have %q, want %q", got, tt.want)
		}
	}
}

func FuzzParseTrip(f *testing.F) {
	for _, s := range []string{"streak=3", "count=5,of=10,within=60s", "rate=0.5,within=60s,calls=20",
		"slow=0.333333333333,limit=10s,within=60s,calls=20", "count=3,within=9223372036854775807ns", "rate=1e-300,within=1ms,calls=1", "streak=é", ",,,=", "rate=0x1p-2,within=1m,calls=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		trip, err := fusebox.ParseTrip(s)
		if err != nil {
			return
		}
		again, err := fusebox.ParseTrip(trip.String())
		if err != nil || again.String() != trip.String() {
			t.Fatalf("%q is %q, which is %v, %v", s, trip, again, err)
		}
		if trip.Words() == "" {
			t.Fatalf("%q has no words", s)
		}
	})
}

func FuzzPolicyJSON(f *testing.F) {
	for name := range map[string]bool{"model": true, "tool": true, "session": true} {
		b, err := json.Marshal(fusebox.DefaultPolicy(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"trip":[],"cooldown":{"after":"-5s"}}`))
	f.Add([]byte(`{"trip":["streak=3"],"probe":{"concurrent":1e3}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p fusebox.Policy
		if json.Unmarshal(b, &p) != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("%q was read though it is invalid: %v", b, err)
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again fusebox.Policy
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%q was written as %q: %v", b, written, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(written) {
			t.Fatalf("%q\nthen %q, %v", written, twice, err)
		}
		p.Words()
	})
}
