package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/session"
)

// sessionFlags are what `run` and `pick` share: how the process is run.
type sessionFlags struct {
	run     string
	timeout time.Duration
	grace   time.Duration
	limits  []string
	observe bool
}

func (f *sessionFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.run, "run", "", "`ID` of the agent run that this belongs to")
	flags.DurationVar(&f.timeout, "timeout", 0, "end the command after this `DURATION`, and count it as failed; 0 = never")
	flags.DurationVar(&f.grace, "grace", 10*time.Second, "how long it has to end by itself then, as a `DURATION`")
	flags.StringArrayVar(&f.limits, "limit-pattern", nil, "`REGEXP` of a usage limit in the end of the output, which throttles the circuit until the time that stands there; "+
		`"default" knows the common ones; may be given several times`)
	flags.BoolVar(&f.observe, "observe", false, "decide and record, but refuse nothing")
}

// process is the command to run.
func (a *app) process(f *sessionFlags, args []string) (*session.Process, error) {
	limit, err := session.NewLimit(f.limits...)
	if err != nil {
		return nil, usagef("--limit-pattern: %w", err)
	}
	if f.timeout < 0 || f.grace <= 0 {
		return nil, usagef("--timeout and --grace: want a duration above 0")
	}
	return &session.Process{Args: args, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr,
		Timeout: f.timeout, Grace: f.grace, Limit: limit}, nil
}

// sessionPolicy is the policy to fold a circuit by: the flags on top of the
// configuration; zero, the stored one, where neither says anything.
func sessionPolicy(c *config.Config, flags *config.PolicyFlags, circuit string) (fusebox.Policy, error) {
	if flags == nil || !flags.Given() {
		return namedPolicy(c, circuit), nil
	}
	p, err := flags.Policy(c.Policy(circuit))
	if err != nil {
		return p, &exitError{exitUsage, err}
	}
	p.Loaded = time.Now().UTC()
	return p, nil
}

// runSession runs the process under a ticket, and ends the program with its
// exit code. What the guard has to say goes to standard error.
func (a *app) runSession(ctx context.Context, t *session.Ticket, p *session.Process, circuit string) error {
	o := t.Run(ctx, p)
	if o.Ended.Code != 0 && o.Ended.Err != nil && o.Ended.Code > 125 && o.Ended.Code < 128 {
		a.warnf("%v", o.Ended.Err)
	}
	switch {
	case o.Err != nil:
		a.warnf("%s: how the command ended is not recorded: %v", circuit, o.Err)
	case o.Result.Outcome == fusebox.Throttled:
		a.warnf("%s: throttled until %s: %s", circuit, o.Result.NotBefore.Local().Format(time.RFC3339), fusebox.ShortText(o.Ended.Limit))
	case o.State.Phase == fusebox.Open:
		status := o.State.StatusAt(circuit, o.State.Clock())
		a.warnf("%s is %s: %s", circuit, phaseWords(&status, o.State.Clock()), status.Reason)
	}
	if o.Ended.Code == 0 {
		return nil
	}
	return exitWith(o.Ended.Code)
}

// denied ends the program because a circuit refused, and says why.
func (a *app) denied(d *fusebox.Denial) error {
	if a.json {
		writeJSON(a.stderr, map[string]*fusebox.Denial{"denied": d})
	} else {
		fmt.Fprintf(a.stderr, "fusebox: %s\n", d.Instruction())
	}
	return exitWith(exitDenied)
}

// unasked decides what to do where the store could not be asked: the work goes
// on, and that is said.
func (a *app) unasked(g *session.Guard, run string, err error) *session.Ticket {
	a.warnf("%s could not be asked, so nothing is known against it: %v", g.Circuit, err)
	return g.Unasked(run)
}

func (a *app) runCommand() *cobra.Command {
	var circuit string
	var wait bool
	var policy config.PolicyFlags
	var f sessionFlags
	c := &cobra.Command{
		Use:   "run --circuit CIRCUIT [policy flags] -- COMMAND…",
		Short: "Run a command under a circuit",
		Long: `run asks the circuit, runs the command as if fusebox were not there, and
reports how it ended. Streams, signals and the exit code are the command's own.

Exit 0 is a success. Any other exit is a failure, and counts unless the policy's
faster-than leaves it out; death by a signal that was sent to fusebox is
canceled. A command that is refused is not started: exit code 75, and standard
error says why and for how long.`,
		Example: `  fusebox run --circuit session/claude -- claude -p "tidy the backlog"
  fusebox run --circuit session/nightly --trip count=3,within=60m --cooldown 1h --timeout 2h -- ./nightly.sh
  fusebox run --circuit session/max --limit-pattern default --wait -- ./agent.sh`,
		Args: arguments(1, anyNumber),
		RunE: func(c *cobra.Command, args []string) error {
			return a.run(c.Context(), circuit, &policy, &f, wait, args)
		},
	}
	c.Flags().StringVar(&circuit, "circuit", "", "the `CIRCUIT` that guards the command, such as session/claude")
	c.Flags().BoolVar(&wait, "wait", false, "where the circuit refuses, wait until it does not")
	f.register(c)
	policy.Register(c.Flags())
	c.Flags().SetInterspersed(false)
	_ = c.RegisterFlagCompletionFunc("circuit", a.completeCircuits)
	return c
}

func (a *app) run(ctx context.Context, circuit string, policy *config.PolicyFlags, f *sessionFlags, wait bool, args []string) error {
	if circuit == "" {
		return usagef("want --circuit, such as --circuit session/claude")
	}
	names, err := canonicalNames([]string{circuit})
	if err != nil {
		return err
	}
	p, err := a.process(f, args)
	if err != nil {
		return err
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	g := &session.Guard{Circuit: names[0], Worker: workerName(c), Observe: f.observe || c.Mode == config.ModeObserve}
	if g.Policy, err = sessionPolicy(c, policy, names[0]); err != nil {
		return err
	}
	if g.Store, err = a.openStore(ctx); err != nil {
		return err
	}
	defer g.Store.Close()
	ask := g.Ask
	if wait {
		ask = func(ctx context.Context, run string) (*session.Ticket, error) {
			return g.Wait(ctx, run, func(d *fusebox.Denial) { a.log.Info("waiting", "denied", d.Instruction()) })
		}
	}
	ticket, err := ask(ctx, f.run)
	if d := fusebox.AsDenial(err); d != nil {
		return a.denied(d)
	}
	if err != nil {
		ticket = a.unasked(g, f.run, err)
	}
	return a.runSession(ctx, ticket, p, names[0])
}

func writeJSON(w io.Writer, v any) {
	a := app{stdout: w}
	_ = a.printJSON(v) // standard error: there is nowhere else to tell of it
}
