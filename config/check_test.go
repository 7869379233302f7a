package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckWarns(t *testing.T) {
	backend := "backends: {x: {url: http://a/v1, dialect: openai%}}\nroutes: [{match: '*', backends: [x]}]\n"
	for _, test := range []struct{ name, text, at, message string }{
		{"a streak over sessions", "circuits: {session/*: {trip: [{streak: 3}]}}", "1:30", "use failures in a window instead"},
		{"a streak over all, sessions too", "circuits: {'*': {trip: [{streak: 3}]}}", "1:24", "use failures in a window instead"},
		{"a streak in a fleet", "store: redis://h\ncircuits: {model/*: {trip: [{streak: 3}]}}", "2:28", "counts the order in which their calls end"},
		{"no rest by calls", "circuits: {tool/*: {cooldown: {calls: 0}}}", "1:39", "say 1 or more"},
		{"no rest by time", "circuits: {tool/*: {cooldown: {after: 0s}}}", "1:39", "no cooldown"},
		{"a max that was raised", "circuits: {session/*: {cooldown: {max: 10m}}}", "1:40", "was raised to it (1h0m0s)"},
		{"a backend without a route", "backends: {x: {url: http://a/v1, dialect: openai}}", "1:12", "no route uses this backend"},
		{"a limit beyond the total", strings.Replace(backend, "%", ", timeouts: {idle: 20m}", 1), "1:68", "longer than the total of 10m"},
		{"a total below the time to connect", strings.Replace(backend, "%", ", timeouts: {total: 1s}", 1), "1:69", "shorter than the built-in time to connect"},
		{"a weight for itself", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: '*', backends: [{backend: x, priority: 1, weight: 2}]}]", "2:68", "shares its priority with no other backend"},
		{"a route behind a wider one", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes:\n- {match: '*', backends: [x]}\n- {match: gpt-*, backends: [x]}", "4:11", "never reached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			warnings := Check(parse(t, test.text))
			if len(warnings) != 1 {
				t.Fatalf("have %d warnings, want one: %v", len(warnings), warnings)
			}
			if got := warnings[0].String(); !strings.HasPrefix(got, "fusebox.yaml:"+test.at+": ") || !strings.Contains(got, test.message) {
				t.Errorf("have %q, want it at %s, saying %q", got, test.at, test.message)
			}
		})
	}
}

func TestCheckIsQuietWhereNothingIsWrong(t *testing.T) {
	t.Setenv("FUSEBOX_TEST_KEY", "k")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":                  "",
		"a fleet by what is there": "store: redis://h",
		"a streak beside a window": "store: redis://h\ncircuits: {session/*: {trip: [{streak: 3}, {count: 3, within: 60m}]}}",
		"a streak of one worker":   "circuits: {model/local/*: {trip: [{streak: 2}]}}",
		"secrets that are there":   "gateway: {token: {env: FUSEBOX_TEST_KEY}}\nadmin: {token: {file: '" + filepath.ToSlash(file) + "'}}",
		"the more exact first":     "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: gpt-*, backends: [x]}, {match: '*', backends: [x]}]",
	} {
		t.Run(name, func(t *testing.T) {
			if w := Check(parse(t, text)); len(w) > 0 {
				t.Errorf("have %v", w)
			}
		})
	}
}

func TestMissingSecretsHaveTheirPlace(t *testing.T) {
	for _, test := range []struct{ name, text, at, message string }{
		{"a key that is not set", "backends: {x: {url: http://a/v1, dialect: openai, key: {env: FUSEBOX_TEST_UNSET}}}", "1:56", "environment variable FUSEBOX_TEST_UNSET"},
		{"a token's file that is missing", "gateway: {token: {file: no-such-file}}", "1:18", "missing, unreadable or empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := parse(t, test.text).MissingSecrets()
			if len(errs) != 1 {
				t.Fatalf("want one mistake, have %v", errs)
			}
			if got := errs[0].Error(); !strings.HasPrefix(got, "fusebox.yaml:"+test.at+": ") || !strings.Contains(got, test.message) {
				t.Errorf("have %q, want it at %s, saying %q", got, test.at, test.message)
			}
		})
	}
}

func TestMissingSecretsAreErrorsForWhoServes(t *testing.T) {
	t.Setenv("FUSEBOX_TEST_EMPTY", " ")
	c := parse(t, `backends:
  Y: {url: http://a/v1, dialect: openai, key: {env: FUSEBOX_TEST_EMPTY}}
  x: {url: http://a/v1, dialect: openai, key: {env: FUSEBOX_TEST_UNSET}}
  z: {url: http://a/v1, dialect: openai, key: client}
`)
	errs := c.MissingSecrets()
	if len(errs) != 2 || errs[0].Line != 2 || errs[1].Line != 3 || !strings.Contains(errs[0].Problem, "FUSEBOX_TEST_EMPTY") {
		t.Errorf("have %v", errs)
	}
	if z, ok := c.Backend("z"); !ok || !z.ClientKey || !z.Key.IsZero() {
		t.Errorf("key: client: %+v", z)
	}
}

func TestOutcomesOfKindsAndPatterns(t *testing.T) {
	c := parse(t, "circuits: {tool/calc/*: {guard: off}, tool/*: {cooldown: {calls: 2}, on_open: stop_run, unit: attempt, thrash: off}}")
	var names []string
	words := map[string]string{}
	for _, o := range c.Outcomes() {
		names = append(names, o.Name)
		words[o.Name] = strings.Join(o.Words, "; ")
	}
	if want := []string{"model/*", "tool/*", "session/*", "server/*", "tool/calc/*"}; !slices.Equal(names, want) {
		t.Errorf("have %v, want %v", names, want)
	}
	for name, parts := range map[string][]string{
		"model/*":     {"5 failures among the last 10 results within 1m", "at once on auth", "1 probe at a time"},
		"tool/*":      {"3 failures in a row", "stays open for 2 refused calls", "counts every attempt", "ends the run", "not looked for"},
		"session/*":   {"3 failures within 1h", "longer than 1m counts as a call that worked"},
		"tool/calc/*": {"not guarded"},
	} {
		for _, part := range parts {
			if !strings.Contains(words[name], part) {
				t.Errorf("%s: %q does not say %q", name, words[name], part)
			}
		}
	}
}
