//go:build unix

package redisstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fusebox-go/fusebox"
)

// history is what was done to one circuit from all sides, and what came back.
// It is sound if the calls, each at one instant between its begin and its end,
// make sense one after the other: to the Fold that is all there is to know of a
// circuit.
type history struct {
	policy fusebox.Policy
	origin time.Time

	mu      sync.Mutex
	begun   int
	applied []applied
	crashes []span
}

// span is when something began and ended, in nanoseconds since the origin.
type span struct{ begin, end int64 }

// applied is one Apply.
type applied struct {
	span
	worker int
	events []fusebox.Event
	state  fusebox.State // that was answered
	err    error         // it may have arrived, then or later
	again  bool          // the same report was sent again after it
	waited int64         // nanoseconds since the report was sent first
}

func newHistory(p fusebox.Policy) *history { return &history{policy: p, origin: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.origin)) }

// begin notes that an Apply begins.
func (h *history) begin() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun++
	return h.now()
}

func (h *history) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// failed counts the reports without an answer.
func (h *history) failed() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.applied {
		if a.err != nil {
			n++
		}
	}
	return n
}

func (h *history) add(a applied) {
	a.end = h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.applied = append(h.applied, a)
}

// crash notes that the server lost everything while lose ran.
func (h *history) crash(lose func()) {
	begin := h.now()
	lose()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashes = append(h.crashes, span{begin, h.now()})
}

// The steps of which a history consists. An Apply is two: its events are taken
// in at once, and a state is told that holds them, and maybe those of others
// that were folded with them.
type (
	takeIn struct{ events []fusebox.Event }
	tell   struct{ newest fusebox.EventID } // own event that the state must hold; zero = none
	lose   struct{}
)

// operations are the steps. Events that a report without an answer sent may be
// taken in at any time after, or never, which is the same as after everything
// else.
func (h *history) operations() []porcupine.Operation {
	var steps []porcupine.Operation
	for _, c := range h.crashes {
		steps = append(steps, porcupine.Operation{Input: lose{}, Call: c.end, Return: c.end}) // that life is over by now
	}
	for _, a := range h.applied {
		told := tell{}
		if n := len(a.events); n > 0 && !a.again {
			told.newest = a.events[n-1].ID
			for _, life := range h.lives(a) {
				steps = append(steps, porcupine.Operation{ClientId: a.worker, Input: takeIn{a.events}, Call: life.begin, Return: life.end})
			}
		}
		if a.err == nil {
			steps = append(steps, porcupine.Operation{ClientId: a.worker, Input: told, Output: textOf(a.state), Call: a.begin, Return: a.end})
		}
	}
	return steps
}

// lives are the times in which the report's events may be taken in: once in
// every life of the server that it saw. A crash ends what is under way.
func (h *history) lives(a applied) []span {
	var lives []span
	life := span{a.begin - a.waited, a.end}
	for _, c := range h.crashes {
		switch {
		case c.end < life.begin:
			continue
		case c.begin > a.end:
			if a.err != nil {
				life.end = c.end - 1
			}
			return append(lives, life)
		}
		lives = append(lives, span{life.begin, c.end - 1})
		life.begin = c.begin
	}
	if a.err != nil {
		life.end = math.MaxInt64
	}
	return append(lives, life)
}

// textOf is the state as text, without what the fold does not settle.
func textOf(s fusebox.State) string {
	s.Seed = 0
	text, err := json.Marshal(&s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// known is what the model knows of the circuit.
type known struct {
	state fusebox.State
	told  string
	seen  map[string]uint64 // by reporter: its newest event
}

func (h *history) nothing() known { return known{told: h.told(fusebox.State{})} }

// model is the circuit as one who does one step after the other knows it.
func (h *history) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return h.nothing() },
		Step: func(state, input, output any) (bool, any) {
			k := state.(known)
			switch step := input.(type) {
			case takeIn:
				return true, h.takeIn(k, step.events)
			case tell:
				return k.seen[step.newest.From] >= step.newest.N && k.told == output.(string), k
			}
			return true, h.nothing()
		},
		Equal: func(a, b any) bool {
			k, l := a.(known), b.(known)
			return k.told == l.told && maps.Equal(k.seen, l.seen)
		},
	}
}

// takeIn folds the events that were not seen, each once.
func (h *history) takeIn(k known, events []fusebox.Event) known {
	k.seen = maps.Clone(k.seen)
	if k.seen == nil {
		k.seen = map[string]uint64{}
	}
	for _, e := range events {
		if e.ID.N > k.seen[e.ID.From] {
			k.seen[e.ID.From] = e.ID.N
			k.state = h.fold(k.state, e)
		}
	}
	k.told = h.told(k.state)
	return k
}

// told is the text of the state as Apply tells it: who asks brings the policy.
func (h *history) told(s fusebox.State) string {
	return textOf(fusebox.Fold(h.policy, s, fusebox.Event{Kind: fusebox.KindStart, Circuit: name}))
}

// fold folds one event as it is sent: what is no part of its record is lost.
func (h *history) fold(s fusebox.State, e fusebox.Event) fusebox.State {
	e, err := fusebox.ParseEvent(e.AppendJSON(nil))
	if err != nil {
		panic(err)
	}
	e.Circuit = name
	e.MarkLate(&s)
	return fusebox.Fold(h.policy, s, e)
}

// patienceOfCheck bounds the check of one history. They take milliseconds.
const patienceOfCheck = time.Minute

// check looks for an order of the steps that explains the history.
func (h *history) check() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(h.model(), h.operations(), patienceOfCheck)
}

// sound fails the test if there is none.
func (h *history) sound(t *testing.T) {
	t.Helper()
	begin := time.Now()
	result := h.check()
	granted := 0
	for _, a := range h.applied {
		for _, e := range a.events {
			if e.Action == fusebox.ActionGranted && a.state.HasLease(e.Lease) {
				granted++
			}
		}
	}
	t.Logf("%d reports, %d without an answer, %d probes granted, %d crashes; checked in %v", len(h.applied), h.failed(), granted, len(h.crashes), time.Since(begin))
	if result != porcupine.Ok {
		t.Errorf("no order of these steps explains what was answered (%s):\n%s", result, h)
	}
}

// String lists the history by the end of its parts.
func (h *history) String() string {
	var lines []string
	slices.SortFunc(h.applied, func(a, b applied) int { return int(a.end - b.end) })
	for _, a := range h.applied {
		var events []string
		for _, e := range a.events {
			events = append(events, fmt.Sprintf("%s/%d %s", e.ID.From, e.ID.N, e.AppendJSON(nil)))
		}
		lines = append(lines, fmt.Sprintf("%v..%v worker %d: %s\n\t=> %s %v", time.Duration(a.begin), time.Duration(a.end), a.worker,
			strings.Join(events, " "), textOf(a.state), a.err))
	}
	for _, c := range h.crashes {
		lines = append(lines, fmt.Sprintf("%v..%v the server lost everything", time.Duration(c.begin), time.Duration(c.end)))
	}
	return strings.Join(lines, "\n")
}
