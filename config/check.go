package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Warning is what a configuration may say, but probably should not.
type Warning struct {
	Position        // zero where it is about what the file does not say
	Path     string // of the key
	Problem  string
	Do       string
}

// String returns "file:line:column: path: problem; what to do".
func (w Warning) String() string {
	e := Error(w)
	return strings.TrimPrefix(e.Error(), ": ")
}

// Check returns what is allowed but unwise, in the order of the file.
func Check(c *Config) []Warning {
	k := &checker{c: c}
	for i := range c.circuits.entries {
		k.circuit(&c.circuits.entries[i])
	}
	k.backends()
	k.routes()
	slices.SortStableFunc(k.warnings, func(a, b Warning) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return k.warnings
}

// MissingSecrets returns a mistake for every secret that the file names and
// that cannot be had now. They are apart from Parse's, because only who serves
// needs the secrets: it should refuse to start. No secret is in what it returns.
func (c *Config) MissingSecrets() Errors {
	var errs Errors
	named := c.secrets()
	for _, path := range slices.Sorted(maps.Keys(named)) {
		s := named[path]
		if _, err := s.Value(); err == nil {
			continue
		}
		e := &Error{Position: c.at[path], Path: path}
		if s.Env != "" {
			e.Problem = "want a value in the environment variable " + s.Env + ", have none"
			e.Do = "export it, or take out what needs it"
		} else {
			e.Problem = "want the secret in the file " + shown(s.File) + ", which is missing, unreadable or empty"
			e.Do = "create it, with mode 0600, or take out what needs it"
		}
		errs = append(errs, e)
	}
	errs.orNil() // sorts
	return errs
}

type checker struct {
	c        *Config
	warnings []Warning
}

func (k *checker) warn(path, problem, do string) {
	k.warnings = append(k.warnings, Warning{k.c.at[path], path, problem, do})
}

func (k *checker) circuit(e *circuit) {
	// Each session is a process of its own, so that several report to a circuit.
	sessions := fusebox.Kind(e.pattern.text) == "session" || e.pattern.match("session/any")
	if e.layer.trip != nil && onlyStreaks(*e.layer.trip) && (sessions || k.c.Store.Shared()) {
		k.warn(e.path+".trip", "a streak over several workers counts the order in which their calls end: one success between two failures resets it",
			"use failures in a window instead, or beside it: {count: 3, within: 60m}, or at high rates {count: 5, of: 10, within: 60s}")
	}
	if calls := e.layer.calls; calls != nil && *calls == 0 {
		k.warn(e.path+".cooldown.calls", "with 0 refused calls the next call after opening is the probe: the dependency gets no rest", "say 1 or more")
	}
	if after := e.layer.after; after != nil && *after == 0 {
		k.warn(e.path+".cooldown.after", "with no cooldown the next call after opening is the probe: the dependency gets no rest", "say how long it should rest")
	}
	if s := k.c.Settings(e.pattern.text); e.layer.max != nil && e.layer.after == nil && s.Policy.Cooldown.Max > *e.layer.max {
		k.warn(e.path+".cooldown.max", fmt.Sprintf("is below the cooldown that holds here, and was raised to it (%v)", s.Policy.Cooldown.Max),
			"say cooldown.after here too")
	}
}

// onlyStreaks reports whether streaks are all that could open a circuit.
func onlyStreaks(trips []fusebox.Trip) bool {
	for _, t := range trips {
		if !t.IsStreak() {
			return false
		}
	}
	return len(trips) > 0
}

func (k *checker) backends() {
	for _, b := range k.c.Backends {
		if !slices.ContainsFunc(k.c.Routes, func(r Route) bool { return r.uses(b.Name) }) {
			k.warn(b.path, "no route uses this backend", `add it to one: routes: [{match: "*", backends: [`+b.Name+`]}]`)
		}
		t := b.Timeouts.OrDefault()
		for _, part := range []struct {
			name  string
			given time.Duration
		}{
			{"connect", b.Timeouts.Connect}, {"headers", b.Timeouts.Headers},
			{"first_token", b.Timeouts.FirstToken}, {"idle", b.Timeouts.Idle},
		} {
			if part.given > t.Total {
				k.warn(b.path+".timeouts."+part.name, fmt.Sprintf("is longer than the total of %v, and so never counts", t.Total),
					"shorten it, or set a longer total")
			}
		}
		if t.Total < DefaultTimeouts.Connect && b.Timeouts.Connect == 0 {
			k.warn(b.path+".timeouts.total", fmt.Sprintf("is shorter than the built-in time to connect, %v", DefaultTimeouts.Connect),
				"set connect too")
		}
	}
}

func (k *checker) routes() {
	for i, r := range k.c.Routes {
		for _, before := range k.c.Routes[:i] {
			if compilePattern(before.Match).match(r.Match) {
				k.warn(fmt.Sprintf("routes[%d].match", i), fmt.Sprintf("is never reached: %s stands before it and matches all of it", shown(before.Match)),
					"put the more exact route first")
				break
			}
		}
		for j, b := range r.Backends {
			shared := slices.ContainsFunc(r.Backends, func(o RouteBackend) bool { return o.Priority == b.Priority && o.Name != b.Name })
			if b.Weight > 1 && !shared {
				k.warn(fmt.Sprintf("routes[%d].backends[%d].weight", i, j), fmt.Sprintf("%s shares its priority with no other backend, and so the weight means nothing", b.Name),
					"give the backend that it shares the requests with the same priority, or leave the weight out")
			}
		}
	}
}

// Outcome is what holds for a kind or for a pattern of the file.
type Outcome struct {
	Name     string // "model/*", or as in the file
	Settings Settings
	Words    []string // the settings for people
}

// Outcomes returns what holds for every kind, then for every pattern of the
// file from the least to the most exact.
func (c *Config) Outcomes() []Outcome {
	names := []string{"model/*", "tool/*", "session/*", "server/*"}
	for _, p := range c.Patterns() {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	out := make([]Outcome, len(names))
	for i, name := range names {
		s := c.Settings(name)
		out[i] = Outcome{name, s, s.Words()}
	}
	return out
}
