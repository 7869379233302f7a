package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/replay"
)

func (a *app) tuneCommand() *cobra.Command {
	var circuit, target, plot string
	var within time.Duration
	var try *whatIf
	c := &cobra.Command{
		Use:   "tune [policy flags] FILE…",
		Short: "Compare thresholds on the calls of a log",
		Long: `tune reads evidence logs, "-" being standard input, sets incidents apart from
normal operation, and compares rules: how often each would open falsely in 30
days, by formula and by replay, and how soon it sees an outage. It names the
smallest threshold of each kind that keeps false opens under the target, and
says what the data are too few for.

A rule given with --trip is compared besides. Of the other policy flags
--cooldown (30s unless given), --faster-than, --overdue and --distinct matter.`,
		Example: `  fusebox tune --circuit model/paid/gpt-5 --target "1 per 30d" all.jsonl
  fusebox tune --circuit session/claude --within 60m --faster-than 60s --plot out.svg session.jsonl`,
		Args: arguments(1, anyNumber),
		RunE: func(c *cobra.Command, files []string) error {
			if err := try.read(c); err != nil {
				return err
			}
			o := replay.TuneOptions{Within: within}
			var err error
			if o.Target, err = parseTarget(target); err != nil {
				return err
			}
			if within < time.Millisecond {
				return usagef("--within: want a window of at least 1ms, have %v", within)
			}
			if circuit != "" {
				names, err := canonicalNames([]string{circuit})
				if err != nil {
					return err
				}
				circuit = names[0]
			}
			if c.Flags().Changed("trip") {
				p, err := try.policy(circuit)
				if err != nil {
					return err
				}
				o.Trips = p.Trip
			}
			return a.tune(files, plot, replay.Options{Policy: try.policy, Circuit: circuit, Seed: 1}, o)
		},
	}
	base := config.BarePolicy()
	base.Cooldown.After = 30 * time.Second
	try = a.whatIf(c, base)
	f := c.Flags()
	f.StringVar(&circuit, "circuit", "", "look at this `NAME` alone; also the name of records that carry none")
	f.StringVar(&target, "target", "1 per 30d", "how many false opens are few enough, as `COUNT per TIME`")
	f.DurationVar(&within, "within", time.Minute, "window of the candidates that have one")
	f.StringVar(&plot, "plot", "", "draw both errors against the threshold into this SVG `FILE`; takes one circuit")
	return c
}

// parseTarget reads "1 per 30d", "0.5 per 24h".
func parseTarget(s string) (replay.Target, error) {
	count, per, found := strings.Cut(s, " per ")
	opens, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
	length, lengthErr := parseDays(strings.TrimSpace(per))
	if !found || err != nil || lengthErr != nil || !(opens > 0 && opens <= 1e9) || length <= 0 {
		return replay.Target{}, usagef(`--target: want a count per time such as "1 per 30d" or "2 per 12h", have %q`, s)
	}
	return replay.Target{Opens: opens, Per: length}, nil
}

// parseDays reads a duration that may be in days: "30d".
func parseDays(s string) (time.Duration, error) {
	if days, found := strings.CutSuffix(s, "d"); found {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n > 0 && n <= 36500) {
			return 0, fmt.Errorf("want days such as 30d, have %q", s)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	return time.ParseDuration(s)
}

func (a *app) tune(files []string, plot string, o replay.Options, t replay.TuneOptions) error {
	progress := a.newProgress(files)
	o.Progress = progress.replayed
	log := replay.NewLog(o)
	defer log.Close()
	for _, file := range files {
		if err := a.readLog(file, log, progress); err != nil {
			return err
		}
	}
	tunings, err := log.Tune(t)
	progress.clear()
	if err != nil {
		return err
	}
	if plot != "" {
		if err := writePlot(plot, tunings, t.Target); err != nil {
			return err
		}
	}
	for i := range tunings {
		if a.json {
			if err := a.printJSON(&tunings[i]); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			a.printf("\n")
		}
		a.printTuning(&tunings[i], t.Target)
	}
	if n := log.Malformed(); n > 0 {
		a.warnf("malformed lines, skipped: %d", n)
	}
	return nil
}

func writePlot(path string, tunings []replay.Tuning, target replay.Target) error {
	if len(tunings) != 1 {
		return usagef("--plot draws one circuit, the log has %d: name one with --circuit", len(tunings))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	defer f.Close()
	if err := tunings[0].Plot(f, target); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return f.Close()
}

func (a *app) printTuning(t *replay.Tuning, target replay.Target) {
	n := &t.Normal
	a.printf("%s\n", a.paint(bold, shown(t.Circuit)))
	a.printf("  normal operation  %s, %.3g calls a second, %d of %d failed: %s (%s to %s)\n",
		roughly(time.Duration(n.Seconds*1e9)), n.CallsPerS, n.Failures, n.Calls, replay.Percent(n.Share), replay.Percent(n.ShareLow), replay.Percent(n.ShareHigh))
	a.printf("                    longest streak %d, most failures within %s %d\n",
		n.LongestStreak, about(n.WindowS), n.LargestCount)
	a.printf("  set apart         %s\n", countOf(len(t.Incidents), "incident"))
	for i, in := range t.Incidents {
		if i == 10 {
			a.printf("                    and %d more\n", len(t.Incidents)-i)
			break
		}
		a.printf("                    %s, %s: %d of %d failed\n", in.From.Format(time.RFC3339), roughly(in.To.Sub(in.From)), in.Failures, in.Calls)
	}
	a.printf("\n")
	table := &table{}
	table.row("TRIP", "FALSE OPENS/30d", "REPLAYED", "SEES AN OUTAGE AFTER", "REPLAYED", "TARGET")
	for _, c := range t.Candidates {
		meets := cell{"met", green}
		if !c.Meets {
			meets = cell{"missed", red}
		}
		after := ""
		switch {
		case c.Detect != nil:
			after = fmt.Sprintf("%s, %d calls", about(*c.Detect), c.Calls)
		case c.Formula != nil:
			after = "never"
		}
		inLog := ""
		if c.DetectInLog != nil {
			inLog = fmt.Sprintf("%s, %d of %d", about(*c.DetectInLog), c.Detected, len(t.Incidents))
		}
		table.row(c.Trip, number(c.Formula), number(c.Replayed), after, inLog, meets)
	}
	a.printTable(table)
	a.printf("\n")
	smallest := "none of these"
	if len(t.Smallest) > 0 {
		smallest = strings.Join(t.Smallest, " · ")
	}
	a.printf("smallest with at most %g false opens per %s: %s\n", target.Opens, roughly(target.Per), smallest)
	for _, few := range t.TooFew {
		a.printf("%s %s\n", a.paint(yellow, "too few data:"), few)
	}
}

// about is a time in seconds with the precision that a person wants.
func about(seconds float64) string { return roughly(time.Duration(seconds * 1e9)) }

// number is a count that may be very small or large.
func number(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'g', 3, 64)
}
