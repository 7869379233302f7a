package config

import (
	"slices"
	"sync"

	"github.com/fusebox-go/fusebox"
)

// Unit is what a circuit counts as one call.
type Unit string

const (
	UnitVisit   Unit = "visit"   // the whole call with its retries
	UnitAttempt Unit = "attempt" // each attempt by itself
)

// OnOpen is what a denial does to the run.
type OnOpen string

const (
	OnOpenDegrade OnOpen = "degrade"  // it goes on without the dependency
	OnOpenStopRun OnOpen = "stop_run" // it ends: it cannot go on without it
)

// Settings are all that holds for one circuit.
type Settings struct {
	Policy fusebox.Policy // its slices are shared: do not change them
	Unit   Unit
	OnOpen OnOpen
	Guard  bool // false: neither circuit nor thrash; Policy has no rules then
	Thrash bool // false: repeats of a failing call are not looked for

	// Identify names the arguments that make a call what it is; none = all.
	Identify []string

	// Patterns are those of the file that had a say, from the least to the most
	// exact; none = all is built in for the kind.
	Patterns []string

	untripped bool // a level said trip: [], and none above it named a class
}

// builtin returns what holds for a kind of circuit unless the file says more.
func builtin(kind string) Settings {
	return Settings{Policy: fusebox.DefaultPolicy(kind), Unit: UnitVisit, OnOpen: OnOpenDegrade, Guard: true, Thrash: true}
}

// circuit is an entry of circuits:.
type circuit struct {
	pattern pattern
	layer   layer
	path    string // in the file
}

// identity is an entry of thrash.identify:.
type identity struct {
	pattern   pattern
	arguments []string
}

// maxCached bounds the circuits whose settings are kept; names come from callers.
const maxCached = 10_000

// circuits resolves settings. It is safe for concurrent use.
type circuits struct {
	entries    []circuit  // from the least to the most exact
	identities []identity // likewise

	mu     sync.RWMutex
	cached map[string]Settings
}

func newCircuits(entries []circuit, identities []identity) *circuits {
	slices.SortStableFunc(entries, func(a, b circuit) int { return a.pattern.compare(b.pattern) })
	slices.SortStableFunc(identities, func(a, b identity) int { return a.pattern.compare(b.pattern) })
	return &circuits{entries: entries, identities: identities, cached: map[string]Settings{}}
}

// settings puts on top of base what the file says of a canonical name.
func (c *circuits) settings(name string, base Settings) Settings {
	s := base
	for i := range c.entries {
		if e := &c.entries[i]; e.pattern.match(name) {
			e.layer.apply(&s)
			s.Patterns = append(s.Patterns, e.pattern.text)
		}
	}
	for i := range c.identities {
		if e := &c.identities[i]; e.pattern.match(name) {
			s.Identify = e.arguments
		}
	}
	if s.untripped || !s.Guard {
		s.Policy.Trip, s.Policy.OnClass = []fusebox.Trip{}, nil
	}
	if !s.Guard {
		s.Thrash = false
	}
	return s
}

// Settings returns what holds for a circuit: what is built in for its kind, then
// the patterns of the file from the least to the most exact, key by key. The
// name is taken in its canonical spelling; one that has none gets what is built
// in. It is fast and safe for concurrent use, once the Config is set up.
func (c *Config) Settings(circuit string) Settings {
	all := c.circuits
	all.mu.RLock()
	s, ok := all.cached[circuit]
	all.mu.RUnlock()
	if ok {
		return s
	}
	s = c.resolve(circuit)
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.cached) >= maxCached {
		clear(all.cached)
	}
	all.cached[circuit] = s
	return s
}

// resolve is Settings without the cache.
func (c *Config) resolve(circuit string) Settings {
	name, err := fusebox.CanonicalName(circuit)
	if err != nil {
		name = ""
	}
	base := builtin(fusebox.Kind(name))
	base.Policy.Loaded = c.Loaded
	base.Policy.Observe = c.Mode == ModeObserve
	base.Policy.Quorum = c.quorum()
	base.Thrash = !c.ThrashOff
	return c.circuits.settings(name, base)
}

// quorum is what the file says, or what the store is made for.
func (c *Config) quorum() int {
	if c.Quorum == 0 && c.Store.Shared() {
		return 2
	}
	return c.Quorum
}

// Policy returns the policy of a circuit: see [Config.Settings]. It can serve as
// the root package's Config.Policy. Flags go on top by [PolicyFlags.Policy].
func (c *Config) Policy(circuit string) fusebox.Policy { return c.Settings(circuit).Policy }

// Names reports whether an entry of circuits: matches the circuit, so that the
// file has a say in its policy.
func (c *Config) Names(circuit string) bool { return len(c.Settings(circuit).Patterns) > 0 }

// Patterns returns the names and patterns of circuits:, from the least to the
// most exact.
func (c *Config) Patterns() []string {
	out := make([]string, len(c.circuits.entries))
	for i, e := range c.circuits.entries {
		out[i] = e.pattern.text
	}
	return out
}

// Words says the settings for people, a sentence a part.
func (s Settings) Words() []string {
	if !s.Guard {
		return []string{"not guarded: no circuit, and repeats are not looked for"}
	}
	words := s.Policy.Words()
	if s.Unit == UnitAttempt {
		words = append(words, "counts every attempt by itself")
	}
	if s.OnOpen == OnOpenStopRun {
		words = append(words, "ends the run when it refuses")
	}
	if !s.Thrash {
		words = append(words, "repeats of a failing call are not looked for")
	}
	return words
}
