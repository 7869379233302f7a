package stories

import (
	"fmt"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/replay"
)

// fleetNumbers is what the provider saw of the fleet: some of what `fusebox simulate
// fleet` counts.
type fleetNumbers struct {
	Calls      int `json:"calls"`             // that reached it while it was down
	BeforeOpen int `json:"calls_before_open"` // of these, made before the caller's circuit had opened
	Probes     int `json:"probes"`
	Peak       int `json:"probes_peak_1s"` // most probes within any one second
}

func fleetNumbersOf(s replay.FleetSummary) fleetNumbers {
	return fleetNumbers{s.CallsDown, s.CallsDownBeforeOpen, s.Probes, s.ProbesPeak}
}

func workerFleet() (Story, error) {
	policy := fusebox.DefaultPolicy("model")
	policy.Trip = []fusebox.Trip{fusebox.Streak(3)}
	policy.Cooldown = fusebox.Cooldown{After: 2 * time.Minute, Growth: 1}
	local := replay.Fleet{Replicas: 10, Rate: 5, Before: time.Minute, Outage: 10 * time.Minute,
		Latency: 200 * time.Millisecond, DownLatency: 20 * time.Millisecond, Policy: policy, Seed: 1}
	none := local
	none.Policy.Trip, none.Policy.OnClass = nil, nil
	jitter := local
	jitter.Policy.Cooldown.Jitter = 0.2
	shared := jitter
	shared.Shared, shared.Propagation = true, 5*time.Millisecond

	table := [][]string{{"", "calls while down", "before it opened", "most probes in 1 s"}}
	told := map[string]fleetNumbers{}
	for _, f := range []struct {
		name  string
		fleet replay.Fleet
	}{{"no circuit", none}, {"one in each replica", local}, {"the same, with jitter", jitter}, {"one that all share", shared}} {
		n := fleetNumbersOf(f.fleet.Simulate())
		told[f.name] = n
		row := []string{f.name, strconv.Itoa(n.Calls), "", ""}
		if n.Probes > 0 {
			row[2], row[3] = strconv.Itoa(n.BeforeOpen), strconv.Itoa(n.Peak)
		}
		table = append(table, row)
	}
	without, with := told["one in each replica"], told["one that all share"]
	return Story{
		Title: "the threshold times the replicas",
		Setting: fmt.Sprintf("%d replicas call one provider, %.0f times a second each. It is down for %.0f minutes. A circuit opens at three failures in a row, for two minutes; then it probes.",
			local.Replicas, local.Rate, local.Outage.Minutes()),
		Table:   table,
		Without: Side{fmt.Sprintf("a circuit in each: %d calls until all stopped, %d probes in one second", without.BeforeOpen, without.Peak), without},
		With:    Side{fmt.Sprintf("one shared circuit: %d calls until all stopped, %d probe in one second", with.BeforeOpen, with.Peak), with},
		Why:     "What one replica has learnt the others need not learn by failing.",
	}, nil
}
