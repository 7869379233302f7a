// Package stories tells the five stories that fusebox is for, each without and
// with the guard. Nothing in them is written down beforehand: the same caller
// meets the same dependency twice, in virtual time, and what is counted comes
// from real circuits, runs, denials and simulations.
//
//	what happens ──┬── as it is ──────────> numbers, without
//	               └── circuit, run ──────> numbers, with
//
// A story is a file: sessions.go, loop.go, outage.go, fleet.go, local.go.
package stories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Story is one story that was told: its JSON has the numbers alone.
type Story struct {
	Name    string     `json:"story"`
	Title   string     `json:"-"`
	Setting string     `json:"-"` // what happens, in a few sentences
	Table   [][]string `json:"-"` // its first row is the heading; an empty cell has nothing to tell
	Said    []string   `json:"-"` // the denials that callers got
	With    Side       `json:"with"`
	Without Side       `json:"without"`
	Why     string     `json:"-"` // one line
}

// Side is the story without or with the guard.
type Side struct {
	Text    string
	Numbers any // a struct
}

// MarshalJSON writes the numbers alone.
func (s Side) MarshalJSON() ([]byte, error) { return json.Marshal(s.Numbers) }

// tellers has the stories in their order.
var tellers = []struct {
	name string
	tell func() (Story, error)
}{
	{"interleaved sessions", interleavedSessions},
	{"retry loop", retryLoop},
	{"long outage", longOutage},
	{"worker fleet", workerFleet},
	{"local first", localFirst},
}

// Names returns the names of the stories, in order.
func Names() []string {
	var names []string
	for _, t := range tellers {
		names = append(names, t.name)
	}
	return names
}

// Tell tells the story of that name; its words may also be joined by hyphens.
func Tell(name string) (Story, error) {
	name = strings.ToLower(strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' }), " "))
	for _, t := range tellers {
		if t.name != name {
			continue
		}
		s, err := t.tell()
		if err != nil {
			return Story{}, fmt.Errorf("story %s: %w", name, err)
		}
		s.Name = name
		return s, nil
	}
	return Story{}, fmt.Errorf("no story is called %q: want %s", name, strings.Join(Names(), ", "))
}

// began is when every story begins.
var began = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// newCircuit returns a circuit of a box of its own.
func newCircuit(name string, p fusebox.Policy) (*fusebox.Box, *fusebox.Circuit, error) {
	box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return p }})
	if err != nil {
		return nil, nil, err
	}
	c, err := box.Circuit(name)
	return box, c, err
}

// times says how often.
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// step is something that happens at a time.
type step struct {
	at time.Time
	do func()
}

// play lets the steps happen in the order of their times.
func play(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	for _, s := range steps {
		s.do()
	}
}
