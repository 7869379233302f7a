package stories

import (
	"fmt"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// session is one agent session of the morning.
type session struct {
	ended time.Time
	took  time.Duration
	works bool
}

func (s *session) began() time.Time { return s.ended.Add(-s.took) }

func (s *session) String() string {
	if s.works {
		return fmt.Sprintf("worked for %.0f min", s.took.Minutes())
	}
	return fmt.Sprintf("died after %.0f s", s.took.Seconds())
}

// morning is what the sessions would do if all of them were started.
func morning() []session {
	at := func(minute int) time.Time { return began.Add(time.Duration(180+minute) * time.Minute) }
	return []session{
		{at(1), 5 * time.Second, false},
		{at(3), 7 * time.Second, false},
		{at(5), 18 * time.Minute, true},
		{at(9), 6 * time.Second, false},
		{at(14), 11 * time.Minute, true},
		{at(18), 4 * time.Second, false},
	}
}

// sessionNumbers is what became of a morning.
type sessionNumbers struct {
	Calls    int `json:"calls"` // sessions that were started
	Denied   int `json:"denied"`
	Failures int `json:"failures"` // of those that were started
	Opened   int `json:"opened"`
}

// watched is a session as a circuit saw it.
type watched struct {
	denied bool
	before fusebox.Phase // at its end
	after  fusebox.Phase
	count  int // the failures that count, after its end
}

func (w watched) opened() bool { return w.before == fusebox.Closed && w.after == fusebox.Open }

// column is the session's cell in the table.
func (w watched) column() string {
	switch {
	case w.denied:
		return "not started"
	case w.opened():
		return strconv.Itoa(w.count) + ": opens"
	case w.after == fusebox.Open:
		return "ran on"
	}
	return strconv.Itoa(w.count)
}

// sideBySide lets the sessions of a morning run under one circuit.
func sideBySide(sessions []session, p fusebox.Policy) ([]watched, sessionNumbers, error) {
	_, c, err := newCircuit("session/claude", p)
	if err != nil {
		return nil, sessionNumbers{}, err
	}
	var n sessionNumbers
	var steps []step
	seen := make([]watched, len(sessions))
	for i, s := range sessions {
		var permit fusebox.Permit
		start := func() {
			if permit, err = c.AllowAt(s.began()); err != nil {
				seen[i].denied = true
				n.Denied++
				return
			}
			n.Calls++
		}
		end := func() {
			if seen[i].denied {
				return
			}
			seen[i].before = c.State().Phase
			permit.DoneAt(s.ended, s.result())
			state := c.State()
			seen[i].after, seen[i].count = state.Phase, state.CountAt(s.ended)
			if seen[i].opened() {
				n.Opened++
			}
			if !s.works {
				n.Failures++
			}
		}
		steps = append(steps, step{s.began(), start}, step{s.ended, end})
	}
	play(steps)
	return seen, n, nil
}

func (s *session) result() fusebox.Result {
	if s.works {
		return fusebox.Result{}
	}
	return fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash}
}

func interleavedSessions() (Story, error) {
	sessions := morning()
	window := fusebox.DefaultPolicy("session")
	window.Cooldown.Jitter = 0
	streak := window
	streak.Trip = []fusebox.Trip{fusebox.Streak(3)}
	inRow, without, err := sideBySide(sessions, streak)
	if err != nil {
		return Story{}, err
	}
	within, with, err := sideBySide(sessions, window)
	if err != nil {
		return Story{}, err
	}
	table := [][]string{{"ended", "session", "failures in a row", "within 60 minutes"}}
	for i := range sessions {
		s := &sessions[i]
		table = append(table, []string{s.ended.Format("15:04"), s.String(), inRow[i].column(), within[i].column()})
	}
	return Story{
		Title:   "the third failure never came",
		Setting: "Agent sessions run side by side, and their backend fails now and then. The breaker waits for three failures in a row. Sessions that work end in between.",
		Table:   table,
		Without: Side{fmt.Sprintf("counted in a row: %d sessions started, %d died, opened %s", without.Calls, without.Failures, times(without.Opened)), without},
		With:    Side{fmt.Sprintf("counted in a window: %d started, %d died, %d refused, opened %s", with.Calls, with.Failures, with.Denied, times(with.Opened)), with},
		Why:     "A success beside a failure disproves nothing: count density, not order.",
	}, nil
}
