package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [CIRCUIT…]",
		Short: "Show where circuits and runs are",
		Long: `Show where circuits and runs are: all that the store knows, or the named ones.
Looking has no effects, and the exit code is 0 whatever is shown; doctor's is 1
when something is down.`,
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			store, err := a.openStore(c.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			names, err := canonicalNames(args)
			if err != nil {
				return err
			}
			report, err := fusebox.ReadReport(c.Context(), store, names...)
			if printErr := a.printReport(report); err == nil {
				err = printErr
			}
			return err
		},
	}
}

func (a *app) printReport(report fusebox.Report) error {
	if a.json {
		return a.printJSON(report)
	}
	if len(report.Circuits) == 0 && len(report.Runs) == 0 {
		a.printf("No circuit has any evidence yet.\n")
		return nil
	}
	now := time.Now()
	if len(report.Circuits) > 0 {
		a.printTable(circuitTable(report.Circuits, now))
	}
	if len(report.Runs) > 0 {
		if len(report.Circuits) > 0 {
			a.printf("\n")
		}
		a.printTable(runTable(report.Runs, now))
	}
	return nil
}

func circuitTable(circuits []fusebox.Status, now time.Time) *table {
	t := &table{}
	t.row("CIRCUIT", "HEALTH", "PHASE", "FAILURES", "DENIED", "LATENCY", "CHECKED", "SINCE", "LAST ERROR")
	for _, s := range circuits {
		condition := conditionOf(&s)
		latency := ""
		if s.Latency > 0 {
			latency = roughly(s.Latency)
		}
		t.row(s.Circuit, cell{condition, conditionColours[condition]}, phaseWords(&s, now),
			s.Failures, s.Denied, latency, ago(s.CheckedAt, now), ago(s.Since, now), s.LastError)
		for _, h := range s.Hosts {
			t.row("  for "+h.Host+" alone", cell{"down", red}, ownPhaseWords(&h), h.Failures, "", "", "", ago(h.Since, now), h.LastError)
		}
	}
	return t
}

// ownPhaseWords says where a host's own circuit is.
func ownPhaseWords(h *fusebox.HostStatus) string {
	if h.RetryAfter > 0 {
		return fmt.Sprintf("%s, retry after %s", h.Phase, roughly(h.RetryAfter))
	}
	return h.Phase.String()
}

func runTable(runs []fusebox.RunStatus, now time.Time) *table {
	t := &table{}
	t.row("RUN", "STATE", "OUTCOME", "DENIED", "SINCE")
	for _, r := range runs {
		state := cell{"going", green}
		if r.Stuck {
			state = cell{"stuck", red}
		}
		t.row(r.Run, state, r.Outcome, r.Denied, ago(r.Since, now))
	}
	return t
}

// The conditions of a circuit: its health, with what overrides it told apart.
const (
	conditionUnknown   = "unknown"
	conditionUp        = "up"
	conditionDown      = "down"
	conditionThrottled = "throttled"
	conditionHeld      = "held"
)

var conditionColours = map[string]colour{
	conditionUp: green, conditionDown: red, conditionThrottled: yellow, conditionHeld: yellow,
}

// conditionOf is a circuit's health in one word, in the order in which calls
// are decided: held, throttled, then the evidence.
func conditionOf(s *fusebox.Status) string {
	switch {
	case s.Held != nil:
		return conditionHeld
	case !s.Throttled.IsZero():
		return conditionThrottled
	}
	return s.Health.String()
}

// phaseWords is the phase with what a person wants to know of it.
func phaseWords(s *fusebox.Status, now time.Time) string {
	switch {
	case s.Held != nil && s.Held.Until.IsZero():
		return "held " + s.Held.To.String() + " until lifted"
	case s.Held != nil:
		return "held " + s.Held.To.String() + " for " + roughly(s.Held.Until.Sub(now))
	case !s.Throttled.IsZero():
		return s.Phase.String() + ", throttled for " + roughly(s.RetryAfter)
	case s.Phase == fusebox.Open && s.RetryAfter > 0:
		return "open for " + roughly(s.RetryAfter)
	case s.Phase == fusebox.Open && s.Policy.Cooldown.Calls > 0:
		return "open"
	case s.Phase == fusebox.Open:
		return "open, next call probes"
	case s.Phase == fusebox.HalfOpen && len(s.Probes) > 0:
		return "half-open, probing"
	}
	return s.Phase.String()
}
