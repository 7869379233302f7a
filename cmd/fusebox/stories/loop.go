package stories

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// stubborn is how often the agent calls its tool before it gives up.
const stubborn = 8

// crm is the tool. It answers what it is asked, unless it is down; it knows no
// customer 4521.
type crm struct {
	down  bool
	calls int // that reached it
}

func (t *crm) lookup(customer int) fusebox.Result {
	t.calls++
	switch {
	case t.down:
		return fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: errors.New("503 Service Unavailable")}
	case customer == 4521:
		return fusebox.Result{Outcome: fusebox.Rejected, Err: errors.New("no such customer")}
	}
	return fusebox.Result{}
}

// agent calls the tool for one customer after the other, whatever comes back.
// allow is asked before each call; the result goes to what it returns. It
// returns how many calls were refused, and the first refusal.
func agent(tool *crm, customers []int, allow func(i, customer int) (done func(fusebox.Result), err error)) (denied int, first error) {
	for i, customer := range customers {
		done, err := allow(i, customer)
		if err != nil {
			denied++
			if first == nil {
				first = err
			}
			continue
		}
		done(tool.lookup(customer))
	}
	return denied, first
}

// unguarded allows everything.
func unguarded(int, int) (func(fusebox.Result), error) { return func(fusebox.Result) {}, nil }

// guardedTool is the tool's circuit, and the clock of those who call it.
type guardedTool struct {
	box     *fusebox.Box
	circuit *fusebox.Circuit
	now     time.Time
}

func newGuardedTool() (*guardedTool, error) {
	p := fusebox.DefaultPolicy("tool")
	p.Cooldown.Jitter = 0
	box, c, err := newCircuit("tool/crm/lookup", p)
	return &guardedTool{box, c, began}, err
}

// run asks for the calls of one run, one a second.
func (g *guardedTool) run(id string) func(int, int) (func(fusebox.Result), error) {
	run := g.box.Run(id)
	return func(_, customer int) (func(fusebox.Result), error) {
		g.now = g.now.Add(time.Second)
		permit, err := run.AllowAt(g.now, g.circuit, map[string]int{"customer_id": customer})
		if err != nil {
			return nil, err
		}
		return func(r fusebox.Result) { permit.DoneAt(g.now, r) }, nil
	}
}

// atOnce asks, at one moment, for one call each of many runs. None has its
// result before all have asked.
func (g *guardedTool) atOnce(callers int) (permits []fusebox.RunPermit, denied int) {
	for i := range callers {
		permit, err := g.box.Run("worker-"+strconv.Itoa(i)).AllowAt(g.now, g.circuit, map[string]int{"customer_id": i})
		if err != nil {
			denied++
			continue
		}
		permits = append(permits, permit)
	}
	return permits, denied
}

// loopNumbers is what reached the tool in the story's three parts.
type loopNumbers struct {
	Calls          int    `json:"calls"` // one wrong call, again and again; the tool is healthy
	Denied         int    `json:"denied,omitempty"`
	Phase          string `json:"phase,omitempty"`
	CallsDown      int    `json:"calls_down"` // different calls; the tool is down
	DeniedDown     int    `json:"denied_down,omitempty"`
	PhaseDown      string `json:"phase_down,omitempty"`
	CallsRecovery  int    `json:"calls_recovery"` // of many workers at once, when the cooldown is over
	DeniedRecovery int    `json:"denied_recovery,omitempty"`
	PhaseRecovery  string `json:"phase_recovery,omitempty"`
}

func retryLoop() (Story, error) {
	same, different := make([]int, stubborn), make([]int, stubborn)
	for i := range stubborn {
		same[i], different[i] = 4521, 4601+i
	}
	var without, with loopNumbers

	healthy, broken, back := &crm{}, &crm{down: true}, &crm{}
	agent(healthy, same, unguarded)
	agent(broken, different, unguarded)
	agent(back, different, unguarded)
	without.Calls, without.CallsDown, without.CallsRecovery = healthy.calls, broken.calls, back.calls

	g, err := newGuardedTool()
	if err != nil {
		return Story{}, err
	}
	healthy, broken = &crm{}, &crm{down: true}
	var thrash, open error
	with.Denied, thrash = agent(healthy, same, g.run("ticket-1"))
	with.Calls, with.Phase = healthy.calls, g.circuit.State().Phase.String()
	with.DeniedDown, open = agent(broken, different, g.run("ticket-2"))
	state := g.circuit.State()
	with.CallsDown, with.PhaseDown = broken.calls, state.Phase.String()

	g.now = state.Until
	permits, denied := g.atOnce(stubborn)
	with.CallsRecovery, with.DeniedRecovery = len(permits), denied
	for _, p := range permits {
		p.DoneAt(g.now, back.lookup(4601))
	}
	with.PhaseRecovery = g.circuit.State().Phase.String()

	row := func(what string, without, with, denied int, phase string) []string {
		return []string{what, strconv.Itoa(without), strconv.Itoa(with), strconv.Itoa(denied), phase}
	}
	return Story{
		Title: "the loop that no circuit can see",
		Setting: fmt.Sprintf("An agent calls a CRM tool, reads the error, and calls again, %d times. First with the same wrong arguments: the CRM is healthy and says so. "+
			"Then with other arguments each time, while the CRM is down. Then the CRM is back, and %d workers wait for it.", stubborn, stubborn),
		Table: [][]string{{"", "without", "with", "refused", "circuit"},
			row("one call, CRM healthy", without.Calls, with.Calls, with.Denied, with.Phase),
			row("other calls, CRM down", without.CallsDown, with.CallsDown, with.DeniedDown, with.PhaseDown),
			row("all at once, CRM back", without.CallsRecovery, with.CallsRecovery, with.DeniedRecovery, with.PhaseRecovery)},
		Said:    []string{thrash.Error(), open.Error()},
		Without: Side{fmt.Sprintf("%d calls, %d calls, and a stampede of %d", without.Calls, without.CallsDown, without.CallsRecovery), without},
		With:    Side{fmt.Sprintf("stopped at %d with the circuit %s; opened at %d; recovery by %d probe", with.Calls, with.Phase, with.CallsDown, with.CallsRecovery), with},
		Why:     "Thrash is asked before the circuit, and a denial says what to do.",
	}, nil
}
