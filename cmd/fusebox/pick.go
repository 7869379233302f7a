package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/session"
)

// pickReport is what pick prints with --json.
type pickReport struct {
	Picked  string       `json:"picked"`
	Circuit string       `json:"circuit"`
	Probe   bool         `json:"probe"` // its next report decides whether the circuit closes
	Skipped []skippedOne `json:"skipped"`
}

type skippedOne struct {
	Name   string          `json:"name"`
	Denied *fusebox.Denial `json:"denied"`
}

func (a *app) pickCommand() *cobra.Command {
	var peek, healthy bool
	var lease time.Duration
	var f sessionFlags
	c := &cobra.Command{
		Use:   "pick NAME… [-- COMMAND {}…]",
		Short: "Print the first circuit that is usable",
		Long: `pick looks at the circuits in the order given and prints the first that is
usable, alone on standard output. Unknown is usable, and so is what cannot be
asked because the store does not answer: a warning says so. Where none is usable,
it prints nothing and exits with 75; -v says why each was passed over.

Where a cooldown is over, pick takes the probe's slot: the next report on that
circuit, by record, decides whether it closes. --peek only looks.

With a command, pick runs it with the pick in place of {}, and reports how it
ended, as run does.`,
		Example: `  backend=$(fusebox pick session/claude session/codex session/local) || exit
  fusebox pick --prefer-healthy session/a session/b -- ./agent.sh --backend {}`,
		Args:              arguments(1, anyNumber),
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			names, command := args, []string(nil)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				names, command = args[:dash], args[dash:]
				if len(command) == 0 {
					return usagef("want a command after --")
				}
			}
			if len(names) == 0 {
				return usagef("want the names of circuits before --")
			}
			if lease < 0 {
				return usagef("--lease: want a duration above 0, have %v", lease)
			}
			if peek && command != nil {
				return usagef("--peek only looks: it goes without a command")
			}
			return a.pick(c.Context(), &session.Picker{Peek: peek, PreferHealthy: healthy, Lease: lease}, names, &f, command)
		},
	}
	c.Flags().BoolVar(&peek, "peek", false, "only look: take no probe's slot, count no refusal")
	c.Flags().BoolVar(&healthy, "prefer-healthy", false, "known to be up before unknown")
	c.Flags().DurationVar(&lease, "lease", 0, "how long a probe's slot is kept, as a `DURATION` (default the circuit's own)")
	f.register(c)
	return c
}

func (a *app) pick(ctx context.Context, p *session.Picker, names []string, f *sessionFlags, command []string) error {
	if _, err := canonicalNames(names); err != nil {
		return err
	}
	process, err := a.process(f, command)
	if err != nil {
		return err
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	p.Worker, p.Run = workerName(c), f.run
	p.Observe = f.observe || c.Mode == config.ModeObserve
	p.Policy = func(circuit string) fusebox.Policy { return namedPolicy(c, circuit) }
	if p.Store, err = a.openStore(ctx); err != nil {
		return err
	}
	defer p.Store.Close()
	p.Start = command != nil
	picked, passed, err := p.Pick(ctx, names)
	if picked == nil {
		return a.noneOf(passed, err)
	}
	if err != nil {
		a.warnf("%s could not be asked, so nothing is known against it: %v", picked.Guard.Circuit, err)
	}
	a.sayPassed(passed)
	if command != nil {
		process.Args = fill(command, picked.Name)
		return a.runSession(ctx, picked.Ticket, process, picked.Guard.Circuit)
	}
	if !a.json {
		a.printf("%s\n", picked.Name)
		return nil
	}
	report := pickReport{Picked: picked.Name, Circuit: picked.Guard.Circuit, Probe: picked.Ticket.Probe(), Skipped: []skippedOne{}}
	for _, c := range passed {
		report.Skipped = append(report.Skipped, skippedOne{c.Name, c.Denial})
	}
	return a.printJSON(report)
}

// fill puts the picked name in place of {}.
func fill(command []string, name string) []string {
	filled := slices.Clone(command)
	for i := range filled {
		filled[i] = strings.ReplaceAll(filled[i], "{}", name)
	}
	return filled
}

func (a *app) sayPassed(passed []session.Choice) {
	if !a.verbose {
		return
	}
	for _, c := range passed {
		fmt.Fprintf(a.stderr, "%s: %s\n", printable(c.Name), c.Denial.Instruction())
	}
}

// noneOf ends the program because no circuit is usable: denied, with the
// refusal that ends soonest.
func (a *app) noneOf(passed []session.Choice, err error) error {
	if len(passed) == 0 {
		return err
	}
	if err != nil {
		a.warnf("%v", err)
	}
	a.sayPassed(passed)
	if a.json || !a.verbose {
		soonest := slices.MinFunc(passed, func(x, y session.Choice) int {
			return int(x.Denial.RetryAfter().Milliseconds() - y.Denial.RetryAfter().Milliseconds())
		})
		return a.denied(soonest.Denial)
	}
	return exitWith(exitDenied)
}
