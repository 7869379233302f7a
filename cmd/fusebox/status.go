package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
)

func (a *app) statusCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "status [CIRCUIT…]",
		Short: "Show where circuits and runs are",
		Long: `Show where circuits and runs are: all that the store knows, or the named ones.
Looking has no effects, and the exit code is 0 whatever is shown, but 1 if the
store does not answer; doctor's is 1 when something is down. Of a store that
machines share it tells besides how fast it answers, and which workers use it.

With --from it asks a worker instead, through its admin listener: what that one
decides by, and since when it is local where it has lost the store.`,
		ValidArgsFunction: a.completeCircuits,
		RunE:              func(c *cobra.Command, args []string) error { return a.status(c.Context(), from, args) },
	}
	c.Flags().StringVar(&from, "from", "", "the `URL` of a worker's admin listener, to be asked in place of the store")
	return c
}

func (a *app) status(ctx context.Context, from string, args []string) error {
	names, err := canonicalNames(args)
	if err != nil {
		return err
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	if from != "" {
		report, err := askWorker(ctx, c, from, names)
		if err != nil {
			return err
		}
		return a.printReport(report, true)
	}
	shared, err := a.sharesMachines(c)
	if err != nil {
		return err
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	report, err := fusebox.ReadReport(ctx, store, names...)
	if !report.Store.Answers {
		err = exitWith(exitFailed) // what is printed tells why
	}
	if printErr := a.printReport(report, shared); err == nil {
		err = printErr
	}
	return err
}

// printReport prints what a store or a worker knows; with fleet also who uses
// the store.
func (a *app) printReport(report fusebox.Report, fleet bool) error {
	if a.json {
		return a.printJSON(report)
	}
	now, answers := clockOf(report.Store), report.Store == nil || report.Store.Answers
	switch {
	case len(report.Circuits) > 0:
		a.printTable(circuitTable(report.Circuits, now))
	case len(report.Runs) == 0 && answers:
		a.printf("No circuit has any evidence yet.\n")
	}
	if len(report.Runs) > 0 {
		if len(report.Circuits) > 0 {
			a.printf("\n")
		}
		a.printTable(runTable(report.Runs, now))
	}
	if answers && !fleet {
		return nil
	}
	if len(report.Circuits) > 0 || answers {
		a.printf("\n")
	}
	if report.Store != nil {
		a.printStore(report.Store)
	}
	a.printWorkers(report.Workers, now)
	return nil
}

// clockOf is the store's time when it answered, else this process's.
func clockOf(s *fusebox.StoreStatus) time.Time {
	if s == nil || s.Clock.IsZero() {
		return time.Now()
	}
	return s.Clock
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

// phaseWords is the phase with what a person wants to know of it, and whose it
// is where it is not that of all.
func phaseWords(s *fusebox.Status, now time.Time) string {
	words := wordsOfPhase(s, now)
	if s.Host != "" {
		words += ", for " + s.Host + " alone"
	}
	return words
}

func wordsOfPhase(s *fusebox.Status, now time.Time) string {
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
		return "half-open, probed by " + proberWords(s.Probes, now)
	}
	return s.Phase.String()
}

// proberWords name who holds the slots of a circuit's probes, and how long the
// others wait for them at most.
func proberWords(probes []fusebox.Lease, now time.Time) string {
	var words []string
	for _, p := range probes {
		who := p.Worker
		if who == "" {
			who = "somebody"
		}
		if !p.Until.IsZero() {
			who += " (" + roughly(p.Until.Sub(now)) + " left)"
		}
		words = append(words, who)
	}
	return strings.Join(words, ", ")
}
