package config

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func TestSettingsAreTakenKeyByKeyFromTheMostExact(t *testing.T) {
	c := parse(t, `
circuits:
  tool/crm/lookup: {cooldown: {after: 5s}}
  "*":             {cooldown: {jitter: 0.5}, on_open: stop_run}
  tool/crm/*:      {trip: [{streak: 9}, {count: 2, within: 1m}], cooldown: {after: 7s, growth: 3}, unit: attempt}
  tool/*:          {trip: [{streak: 4}], distinct: false, probe: {close_after: 2}, thrash: off}
`)
	s := c.Settings("tool/crm/lookup")
	want := fusebox.DefaultPolicy("tool")
	want.Trip = []fusebox.Trip{fusebox.Streak(9), fusebox.Count(2, time.Minute)}
	want.Distinct = false
	want.Cooldown = fusebox.Cooldown{After: 5 * time.Second, Jitter: 0.5, Growth: 3, Max: 5 * time.Minute}
	want.Probe.CloseAfter = 2
	if !s.Policy.Equal(want) {
		t.Errorf("policy: have %+v, want %+v", s.Policy, want)
	}
	if s.Unit != UnitAttempt || s.OnOpen != OnOpenStopRun || !s.Guard || s.Thrash {
		t.Errorf("have %+v", s)
	}
	if got := fmt.Sprint(s.Patterns); got != "[* tool/* tool/crm/* tool/crm/lookup]" {
		t.Errorf("patterns: %s", got)
	}
	if c.Names("model/x") != true || parse(t, "circuits: {tool/*: {guard: off}}").Names("model/x") {
		t.Error("Names does not say whether an entry matches")
	}
}

func TestWhatReplacesWhat(t *testing.T) {
	for _, test := range []struct {
		name, text, circuit string
		want                fusebox.Cooldown
	}{
		{"calls replace after", "circuits: {tool/*: {cooldown: {calls: 2}}}", "tool/x",
			fusebox.Cooldown{Calls: 2, Jitter: 0.2, Growth: 2, Max: 5 * time.Minute}},
		{"after replaces calls", "circuits: {tool/*: {cooldown: {calls: 2}}, tool/x: {cooldown: {after: 9s}}}", "tool/x",
			fusebox.Cooldown{After: 9 * time.Second, Jitter: 0.2, Growth: 2, Max: 5 * time.Minute}},
		{"a max from below is raised to after", "circuits: {model/*: {cooldown: {after: 1h}}}", "model/x",
			fusebox.Cooldown{After: time.Hour, Jitter: 0.2, Growth: 2, Max: time.Hour}},
		{"a max above a longer after is raised too", "circuits: {session/*: {cooldown: {max: 10m}}}", "session/x",
			fusebox.Cooldown{After: time.Hour, Jitter: 0.1, Growth: 1, Max: time.Hour}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parse(t, test.text).Policy(test.circuit).Cooldown; got != test.want {
				t.Errorf("have %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWhatSwitchesOff(t *testing.T) {
	for _, test := range []struct {
		name, text            string
		trips, classes        int
		guard, thrash, observ bool
	}{
		{"nothing", "", 1, 1, true, true, false},
		{"trip: [] is no circuit", "circuits: {tool/*: {trip: []}}", 0, 0, true, true, false},
		{"unless a class is named with it", "circuits: {tool/*: {trip: [], on_class: [crash, auth]}}", 0, 2, true, true, false},
		{"a rule further up ends that", "circuits: {tool/*: {trip: []}, tool/x: {trip: [{streak: 2}]}}", 1, 1, true, true, false},
		{"guard: off is neither", "circuits: {tool/*: {guard: off}}", 0, 0, false, false, false},
		{"guard: on further up ends that", "circuits: {tool/*: {guard: off}, tool/x: {guard: on}}", 1, 1, true, true, false},
		{"thrash: off", "circuits: {tool/*: {thrash: off}}", 1, 1, true, false, false},
		{"mode: observe for all", "mode: observe", 1, 1, true, true, true},
		{"mode: enforce for one", "mode: observe\ncircuits: {tool/x: {mode: enforce}}", 1, 1, true, true, false},
		{"mode: observe for one", "circuits: {tool/x: {mode: observe}}", 1, 1, true, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.text).Settings("tool/x")
			p := s.Policy
			if len(p.Trip) != test.trips || len(p.OnClass) != test.classes || s.Guard != test.guard || s.Thrash != test.thrash || p.Observe != test.observ {
				t.Errorf("have %+v", s)
			}
			if err := p.Validate(); err != nil || p.IsZero() {
				t.Errorf("not a policy: %v", err)
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		match         bool
	}{
		{"tool/crm", "tool/crm", true},
		{"tool/crm", "tool/crm/lookup", false},
		{"tool/*", "tool/crm/lookup", true},
		{"tool/*", "tool/", true},
		{"tool/*", "tools/x", false},
		{"*", "", true},
		{"*", "anything/at/all", true},
		{"*/lookup", "tool/crm/lookup", true},
		{"*/lookup", "tool/crm/lookups", false},
		{"model/*/gpt-*:free", "model/a/b/gpt-5:free", true},
		{"model/*/gpt-*:free", "model/gpt-5:free", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*b", "ab", false},
		{"a*b*b", "abb", true},
		{"a*bc*bd", "abcbcbd", true},
	} {
		if got := compilePattern(test.pattern).match(test.name); got != test.match {
			t.Errorf("%q matches %q: %v", test.pattern, test.name, got)
		}
	}
	order := []string{"*", "t*", "tool/*", "tool/c*m", "tool/crm*", "tool/crm"}
	for i := range order[1:] {
		if compilePattern(order[i]).compare(compilePattern(order[i+1])) >= 0 {
			t.Errorf("%q is not less exact than %q", order[i], order[i+1])
		}
	}
}

// FuzzPattern holds the matcher to a naive one.
func FuzzPattern(f *testing.F) {
	f.Add("a*b*b", "abb")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 12 || len(name) > 20 {
			return
		}
		if got, want := compilePattern(pattern).match(name), naiveMatch(pattern, name); got != want {
			t.Errorf("%q matches %q: have %v, want %v", pattern, name, got, want)
		}
	})
}

func naiveMatch(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '*':
		for i := 0; i <= len(name); i++ {
			if naiveMatch(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	return name != "" && pattern[0] == name[0] && naiveMatch(pattern[1:], name[1:])
}

func TestSettingsAreBoundedAndSafeForManyAtOnce(t *testing.T) {
	c := parse(t, "circuits: {tool/*: {trip: [{streak: 7}]}}")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range maxCached / 2 {
				if p := c.Policy(fmt.Sprintf("tool/%d/%d", w, i)); !slices.Equal(p.Trip, []fusebox.Trip{fusebox.Streak(7)}) {
					t.Errorf("have %v", p.Trip)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(c.circuits.cached); n > maxCached {
		t.Errorf("%d circuits are kept", n)
	}
}

func TestANameThatIsNoneGetsWhatIsBuiltIn(t *testing.T) {
	c := parse(t, "circuits: {tool/*: {guard: off}}")
	if s := c.Settings("tool/../x\x00"); !s.Guard || !s.Policy.Equal(fusebox.DefaultPolicy("")) {
		t.Errorf("have %+v", s)
	}
}

func BenchmarkPolicy(b *testing.B) {
	c, err := Parse("f.yaml", []byte(full))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Policy("model/local/llama3.2")
	}
}
