package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

// patience is how long a command waits for the store.
const patience = 5 * time.Second

// The operator's commands go straight to the store, so that every process that
// uses it sees them.

func (a *app) tripCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:               "trip CIRCUIT…",
		Short:             "Open a circuit, with its normal cooldown",
		Args:              arguments(1, anyNumber),
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			return a.operate(c.Context(), args, fusebox.Event{Kind: fusebox.KindTrip, Cause: because(reason)})
		},
	}
	reasonFlag(c, &reason)
	return c
}

func (a *app) resetCommand() *cobra.Command {
	var reason string
	var runs []string
	c := &cobra.Command{
		Use:   "reset [CIRCUIT…]",
		Short: "Close a circuit, or let a stuck run go on",
		Long: `Close a circuit: what it counted, its growth and its throttle are cleared.
With --run, let a run go on that was stopped because it kept calling what was
refused.`,
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			for _, run := range runs {
				args = append(args, fusebox.RunCircuit(run))
			}
			if len(args) == 0 {
				return usagef("want a circuit, or --run ID")
			}
			return a.operate(c.Context(), args, fusebox.Event{Kind: fusebox.KindReset, Cause: because(reason)})
		},
	}
	c.Flags().StringArrayVar(&runs, "run", nil, "the `ID` of a stuck run")
	reasonFlag(c, &reason)
	return c
}

func (a *app) holdCommand() *cobra.Command {
	var reason, until string
	var length time.Duration
	var lift bool
	c := &cobra.Command{
		Use:   "hold {open|closed} CIRCUIT…",
		Short: "Hold a circuit open or closed, whatever the evidence says",
		Long: `Hold a circuit open or closed, whatever the evidence says: until it is lifted,
or for a time. A hold beats every rule and shows everywhere.`,
		Example: `  fusebox hold open model/paid/gpt-5 --for 2h --reason "invoice dispute"
  fusebox hold closed tool/crm/lookup --until 2026-11-30T07:00:00Z
  fusebox hold --lift model/paid/gpt-5`,
		Args:              arguments(1, anyNumber),
		ValidArgsFunction: a.completeHold,
		RunE: func(c *cobra.Command, args []string) error {
			e := fusebox.Event{Kind: fusebox.KindHold, Cause: because(reason)}
			if lift {
				if length != 0 || until != "" {
					return usagef("--lift goes without --for and --until")
				}
				e.Action = fusebox.ActionLifted
				return a.operate(c.Context(), args, e)
			}
			circuits, to, err := holdArgs(args)
			if err != nil {
				return err
			}
			e.Action, e.Phase = fusebox.ActionHeld, to
			if e.Until, err = deadline(length, until); err != nil {
				return err
			}
			return a.operate(c.Context(), circuits, e)
		},
	}
	c.Flags().BoolVar(&lift, "lift", false, "end the hold")
	deadlineFlags(c, &length, &until)
	reasonFlag(c, &reason)
	return c
}

// holdArgs tells the circuits from the word open or closed, which may stand
// before or after them.
func holdArgs(args []string) (circuits []string, to fusebox.Phase, err error) {
	first, last := args[0], args[len(args)-1]
	switch {
	case len(args) > 1 && (first == "open" || first == "closed"):
		err = to.UnmarshalText([]byte(first))
		return args[1:], to, err
	case len(args) > 1 && (last == "open" || last == "closed"):
		err = to.UnmarshalText([]byte(last))
		return args[:len(args)-1], to, err
	}
	return nil, to, usagef("want open or closed, and a circuit: fusebox hold open model/paid/gpt-5")
}

func (a *app) throttleCommand() *cobra.Command {
	var reason, until string
	var length time.Duration
	var lift bool
	c := &cobra.Command{
		Use:   "throttle CIRCUIT…",
		Short: "Let nothing call a dependency before a time; it is not down",
		Example: `  fusebox throttle model/paid/gpt-5 --for 10m
  fusebox throttle --lift model/paid/gpt-5`,
		Args:              arguments(1, anyNumber),
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			e := fusebox.Event{Kind: fusebox.KindThrottle, Cause: because(reason)}
			end, err := deadline(length, until)
			switch {
			case err != nil:
				return err
			case lift && !end.IsZero():
				return usagef("--lift goes without --for and --until")
			case !lift && end.IsZero():
				return usagef("want --for, --until or --lift")
			}
			e.Until = end
			return a.operate(c.Context(), args, e)
		},
	}
	c.Flags().BoolVar(&lift, "lift", false, "end the throttle")
	deadlineFlags(c, &length, &until)
	reasonFlag(c, &reason)
	return c
}

func reasonFlag(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "`WHY`, for the record and for everyone who asks (default: who you are)")
}

func deadlineFlags(c *cobra.Command, length *time.Duration, until *string) {
	c.Flags().DurationVar(length, "for", 0, "how long, as a `DURATION` such as 90m")
	c.Flags().StringVar(until, "until", "", "until when, as a `TIME` such as 2026-11-30T07:00:00Z or 07:00")
}

// because is the recorded reason: the given one, or who acted.
func because(reason string) string {
	if reason != "" {
		return fusebox.ShortText(reason)
	}
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if name == "" {
		return "on the command line"
	}
	return "by " + fusebox.ShortText(name)
}

// deadline is the time that --for and --until say; zero = none.
func deadline(length time.Duration, until string) (time.Time, error) {
	now := time.Now()
	switch {
	case length != 0 && until != "":
		return time.Time{}, usagef("want --for or --until, not both")
	case length < 0:
		return time.Time{}, usagef("--for: want a duration above 0, have %v", length)
	case length > 0:
		return now.Add(length).UTC(), nil
	case until == "":
		return time.Time{}, nil
	}
	t, err := parseMoment(until, now)
	if err != nil {
		return time.Time{}, usagef("--until: %v", err)
	}
	if !t.After(now) {
		return time.Time{}, usagef("--until: %s is over", t.Format(time.RFC3339))
	}
	return t.UTC(), nil
}

// parseMoment reads a time in RFC 3339, or as a clock shows it: the next 07:00
// there is, in local time.
func parseMoment(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	clock, err := time.Parse("15:04", s)
	if err != nil {
		return time.Time{}, fmt.Errorf("want a time such as 2026-11-30T07:00:00Z or 07:00, have %q", s)
	}
	y, m, d := now.Local().Date()
	t := time.Date(y, m, d, clock.Hour(), clock.Minute(), 0, 0, time.Local)
	if !t.After(now) {
		t = time.Date(y, m, d+1, clock.Hour(), clock.Minute(), 0, 0, time.Local)
	}
	return t, nil
}

// operate applies an operator's event to each circuit and prints where it is
// then.
func (a *app) operate(ctx context.Context, circuits []string, e fusebox.Event) error {
	names, err := canonicalNames(circuits)
	if err != nil {
		return err
	}
	c, err := a.config()
	if err != nil {
		return err
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, name := range names {
		status, err := operateOne(ctx, store, name, namedPolicy(c, name), e)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(status)
		} else {
			a.printf("%s is %s\n", name, phaseWords(&status, time.Now()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namedPolicy is the policy that the configuration names for a circuit; zero,
// which stands for the stored one, where it names none and no quorum either. That
// of a run is thrash's.
func namedPolicy(c *config.Config, circuit string) fusebox.Policy {
	switch {
	case fusebox.Kind(circuit) == "run":
		return c.Thrash.RunPolicy()
	case !c.Names(circuit) && c.Quorum == 0:
		return fusebox.Policy{}
	}
	return c.Policy(circuit)
}

func operateOne(ctx context.Context, store fusebox.Store, name string, p fusebox.Policy, e fusebox.Event) (fusebox.Status, error) {
	before, err := store.Apply(ctx, name, fusebox.Policy{})
	if err != nil {
		return fusebox.Status{}, fmt.Errorf("not recorded: %w", err)
	}
	if err := refusedBy(&before, name, &e); err != nil {
		return fusebox.Status{}, err
	}
	e.Circuit, e.At = name, before.Clock().UTC()
	after, err := store.Apply(ctx, name, p, e)
	if err != nil {
		return fusebox.Status{}, fmt.Errorf("not recorded: %w", err)
	}
	status := after.StatusAt(name, after.Clock())
	if e.Kind == fusebox.KindTrip || e.Kind == fusebox.KindReset {
		return status, heldError(&status) // held in the meantime
	}
	return status, nil
}

// refusedBy says why an operator's event would do nothing.
func refusedBy(s *fusebox.State, name string, e *fusebox.Event) error {
	status := s.StatusAt(name, s.Clock())
	switch {
	case e.Kind == fusebox.KindTrip, e.Kind == fusebox.KindReset:
		return heldError(&status)
	case e.Kind == fusebox.KindHold && e.Action == fusebox.ActionLifted && status.Held == nil:
		return fmt.Errorf("%s is not held: there is nothing to lift", name)
	}
	return nil
}

// heldError is the error for a trip or reset of a circuit that is held; nil if
// it is not.
func heldError(s *fusebox.Status) error {
	if s.Held == nil {
		return nil
	}
	why := ""
	if s.Held.Reason != "" {
		why = " (" + s.Held.Reason + ")"
	}
	return fmt.Errorf("%s is held %s%s, and a hold beats trip and reset: lift it first with 'fusebox hold --lift %s'",
		s.Circuit, s.Held.To, why, s.Circuit)
}
