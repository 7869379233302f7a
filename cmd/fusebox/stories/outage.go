package stories

import (
	"fmt"
	"strconv"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/replay"
)

// outageNumbers is what an outage costs.
type outageNumbers struct {
	Calls  int `json:"calls"`
	Denied int `json:"denied,omitempty"`
}

func longOutage() (Story, error) {
	policy := fusebox.DefaultPolicy("tool")
	policy.Trip = []fusebox.Trip{fusebox.Streak(3)}
	policy.Cooldown = fusebox.Cooldown{Calls: 2}
	policy.Probe.Attempts = 0 // as many as a normal run
	outage := replay.Outage{Calls: 15, Runs: 13, MaxRetries: 3}

	var without []replay.OutageRun
	bare := outage.Simulate(func(r replay.OutageRun) { without = append(without, r) })
	outage.Policy = &policy
	table := [][]string{{"run", "without", "", "with", "", "circuit"}}
	with := outage.Simulate(func(r replay.OutageRun) {
		circuit := fmt.Sprintf("%v → %v", r.Before, r.After)
		if r.Probe {
			circuit += ", by a probe"
		}
		w := without[r.Run-1]
		table = append(table, []string{strconv.Itoa(r.Run), calls(w), w.Outcome, calls(r), r.Outcome, circuit})
	})
	return Story{
		Title: "the outage that survives two probes",
		Setting: fmt.Sprintf("A booking tool fails its next %d calls. %d runs need it, one after the other, and each tries up to %d times.",
			outage.Calls, outage.Runs, outage.MaxRetries),
		Table:   table,
		Without: Side{fmt.Sprintf("%d calls", bare.Calls), outageNumbers{Calls: bare.Calls}},
		With: Side{fmt.Sprintf("%d calls, %d runs refused, %d of %d probes failed", with.Calls, with.Denied, with.ProbesFailed, with.Probes),
			outageNumbers{Calls: with.Calls, Denied: with.Denied}},
		Why: "A refused run costs nothing; a run into the outage costs all its tries.",
	}, nil
}

func calls(r replay.OutageRun) string {
	if r.Calls == 1 {
		return "1 call"
	}
	return strconv.Itoa(r.Calls) + " calls"
}
