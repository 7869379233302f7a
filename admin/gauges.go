package admin

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fusebox-go/fusebox"
)

// gauges reads the circuits of the box and of its store at each scrape: what
// other processes opened shows too. Circuits that share a label are counted
// together, so that an open one among them shows.
type gauges struct{ m *metrics }

var (
	phaseDesc    = describe("circuit_state", "Circuits in a phase, holds included: 1 or 0, or how many share the label.", "circuit", "phase")
	healthDesc   = describe("circuit_health", "Circuits of a health; unknown is not down.", "circuit", "health")
	heldDesc     = describe("circuit_held", "Circuits that an operator holds.", "circuit")
	throttleDesc = describe("circuit_throttled", "Circuits that must not be called before some time.", "circuit")
	failuresDesc = describe("circuit_failures", "Failures that count now, or those that opened the circuit; the most of any that share the label.", "circuit")
	latencyDesc  = describe("circuit_latency_seconds", "Moving average of the calls that answered; the longest of any that share the label.", "circuit")
	runsDesc     = describe("runs_known", "Runs that the store knows of, by how they have gone so far, in whichever process; failed ones are stuck.", "outcome")
	workersDesc  = describe("workers", "Workers that announced themselves to the store within the last minute; without one, and while it does not answer, this one.")
	storeDesc    = describe("store_up", "Whether the store answers; without one, and while it does not, circuits are local.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fusebox_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{phaseDesc, healthDesc, heldDesc, throttleDesc, failuresDesc, latencyDesc, runsDesc, workersDesc, storeDesc} {
		out <- d
	}
}

// tally is what the circuits of one label add up to.
type tally struct {
	phases   [3]int
	health   [3]int
	held     int
	throttle int
	failures int
	latency  float64
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := g.m.h.patience(context.Background())
	defer cancel()
	report := g.m.h.report(ctx)
	byLabel := map[string]*tally{}
	for _, s := range report.Circuits {
		label := g.m.names.of(s.Circuit)
		if byLabel[label] == nil {
			byLabel[label] = &tally{}
		}
		byLabel[label].add(&s)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for label, t := range byLabel {
		for phase, n := range t.phases {
			gauge(phaseDesc, float64(n), label, fusebox.Phase(phase).String())
		}
		for health, n := range t.health {
			gauge(healthDesc, float64(n), label, fusebox.Health(health).String())
		}
		gauge(heldDesc, float64(t.held), label)
		gauge(throttleDesc, float64(t.throttle), label)
		gauge(failuresDesc, float64(t.failures), label)
		if t.latency > 0 {
			gauge(latencyDesc, t.latency, label)
		}
	}
	runs := map[fusebox.RunOutcome]int{fusebox.RunComplete: 0, fusebox.RunDegraded: 0, fusebox.RunFailed: 0}
	for _, r := range report.Runs {
		runs[r.Outcome]++
	}
	for outcome, n := range runs {
		gauge(runsDesc, float64(n), string(outcome))
	}
	gauge(workersDesc, float64(len(report.Workers)))
	if g.m.h.cfg.Store != nil {
		gauge(storeDesc, truth(!g.m.h.local.Load()))
	}
}

func (t *tally) add(s *fusebox.Status) {
	t.phases[min(s.Phase, fusebox.HalfOpen)]++
	t.health[min(s.Health, fusebox.Down)]++
	if s.Held != nil {
		t.held++
	}
	if !s.Throttled.IsZero() {
		t.throttle++
	}
	t.failures = max(t.failures, s.Failures)
	t.latency = max(t.latency, s.Latency.Seconds())
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
