package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

// recordFlags describe one result.
type recordFlags struct {
	circuit, outcome, class, run, call, err, at, until string
	ms, grade, floor                                   float64
	attempts                                           int
	stdin                                              bool
}

func (a *app) recordCommand() *cobra.Command {
	var f recordFlags
	var policy config.PolicyFlags
	c := &cobra.Command{
		Use:   "record --circuit CIRCUIT --outcome OUTCOME",
		Short: "Report a result from any program",
		Long: `record puts a result into the evidence log and prints the state after it. It
exits with 0 whatever that state is, and with 1 if something was not recorded.

The result votes in the version of the circuit that was current when its call
began, at --at less --ms, and settles the probe's slot that pick took for this
circuit, if one is out.

--grade and --floor make a grade at or below the floor a failure and any other
a success: with --trip streak=3 that finds a plateau of floor grades.

--stdin reads evidence lines, one JSON object each, as docs/log-format.md
describes them; --circuit is then the circuit of those that name none.`,
		Example: `  fusebox record --circuit session/claude --outcome failure --class crash --ms 5000
  fusebox record --circuit arm/a --grade 0.2 --floor 0.3 --trip streak=3 --cooldown 24h
  fusebox record --stdin < results.jsonl`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.record(c, &f, &policy) },
	}
	flags := c.Flags()
	flags.StringVar(&f.circuit, "circuit", "", "the `CIRCUIT` that the result is of")
	flags.StringVar(&f.outcome, "outcome", "", "`OUTCOME`: success, rejected, failure, throttled or canceled")
	flags.StringVar(&f.class, "class", "", "`CLASS` of a failure, such as timeout or crash")
	flags.Float64Var(&f.ms, "ms", 0, "how long the call took, in `MILLISECONDS`")
	flags.StringVar(&f.run, "run", "", "`ID` of the agent run that made the call")
	flags.StringVar(&f.call, "call", "", "`SIGNATURE` of the exact call, for --distinct")
	flags.StringVar(&f.err, "error", "", "short `TEXT` of the error")
	flags.StringVar(&f.at, "at", "", "`TIME` when the call ended (default now)")
	flags.StringVar(&f.until, "until", "", "`TIME` until which a throttled circuit wants to be left alone")
	flags.IntVar(&f.attempts, "attempts", 0, "calls made, retries included")
	flags.Float64Var(&f.grade, "grade", 0, "a `GRADE` in place of the outcome: a failure at or below --floor")
	flags.Float64Var(&f.floor, "floor", 0, "the `GRADE` that is no better than nothing")
	flags.BoolVar(&f.stdin, "stdin", false, "read evidence lines from standard input")
	policy.Register(flags)
	_ = c.RegisterFlagCompletionFunc("circuit", a.completeCircuits)
	_ = c.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(
		[]string{"success", "rejected", "failure", "throttled", "canceled"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) record(c *cobra.Command, f *recordFlags, policy *config.PolicyFlags) error {
	if f.circuit != "" {
		names, err := canonicalNames([]string{f.circuit})
		if err != nil {
			return err
		}
		f.circuit = names[0]
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	r := recorder{app: a, cfg: cfg, policy: policy, worker: workerName(cfg)}
	var one fusebox.Event
	if f.stdin {
		err = f.alone(c)
	} else {
		one, err = f.event(c, time.Now())
	}
	if err != nil {
		return err
	}
	if _, err := r.policyOf(f.circuit); err != nil {
		return err
	}
	if r.store, err = a.openStore(c.Context()); err != nil {
		return err
	}
	defer r.store.Close()
	if f.stdin {
		return r.lines(c.Context(), f.circuit)
	}
	return r.apply(c.Context(), f.circuit, []fusebox.Event{one})
}

// alone reports flags that say what the lines on standard input say.
func (f *recordFlags) alone(c *cobra.Command) error {
	for _, name := range []string{"outcome", "class", "ms", "run", "call", "error", "at", "until", "attempts", "grade", "floor"} {
		if c.Flags().Changed(name) {
			return usagef("--%s goes without --stdin: each line says it", name)
		}
	}
	return nil
}

// event is the record that the flags describe.
func (f *recordFlags) event(c *cobra.Command, now time.Time) (fusebox.Event, error) {
	var e fusebox.Event
	given := c.Flags().Changed
	var err error
	switch {
	case f.circuit == "":
		return e, usagef("want --circuit, such as --circuit session/claude")
	case given("grade") != given("floor"):
		return e, usagef("--grade and --floor go together")
	case given("grade") == given("outcome"):
		return e, usagef("want --outcome, or --grade and --floor")
	case given("grade"):
		if e, err = f.graded(); err != nil {
			return e, err
		}
	default:
		if e.Outcome, err = fusebox.ParseOutcome(f.outcome); err != nil {
			return e, &exitError{exitUsage, err}
		}
	}
	if f.class != "" {
		if e.Class, err = fusebox.ParseClass(f.class); err != nil {
			return e, &exitError{exitUsage, err}
		}
		if e.Outcome != fusebox.Failure {
			return e, usagef("--class goes with --outcome failure, have %v", e.Outcome)
		}
	}
	if !(f.ms >= 0) || math.IsInf(f.ms, 0) || f.attempts < 0 {
		return e, usagef("--ms and --attempts: want 0 or more")
	}
	if e.At, err = momentOr(f.at, now, now); err != nil {
		return e, usagef("--at: %v", err)
	}
	if e.Until, err = momentOr(f.until, time.Time{}, now); err != nil {
		return e, usagef("--until: %v", err)
	}
	if !e.Until.IsZero() && e.Outcome != fusebox.Throttled {
		return e, usagef("--until goes with --outcome throttled, have %v", e.Outcome)
	}
	e.Elapsed = time.Duration(min(f.ms*float64(time.Millisecond), math.MaxInt64/4))
	e.Run, e.Call, e.Attempts = fusebox.ShortText(f.run), fusebox.ShortText(f.call), f.attempts
	if f.err != "" {
		e.Error = fusebox.ShortText(f.err)
	}
	return e, nil
}

// graded turns a grade into an outcome.
func (f *recordFlags) graded() (fusebox.Event, error) {
	if math.IsNaN(f.grade) || math.IsNaN(f.floor) {
		return fusebox.Event{}, usagef("--grade and --floor: want numbers")
	}
	if f.grade > f.floor {
		return fusebox.Event{}, nil
	}
	return fusebox.Event{Outcome: fusebox.Failure, Error: fmt.Sprintf("grade %v is not above the floor of %v", f.grade, f.floor)}, nil
}

func momentOr(s string, or, now time.Time) (time.Time, error) {
	if s == "" {
		return or.UTC(), nil
	}
	t, err := parseMoment(s, now)
	return t.UTC(), err
}

// recorder puts records into the store.
type recorder struct {
	*app
	cfg    *config.Config
	policy *config.PolicyFlags
	store  fusebox.Store
	worker string
}

func (r *recorder) policyOf(circuit string) (fusebox.Policy, error) {
	return sessionPolicy(r.cfg, r.policy, circuit)
}

// apply records events of one circuit and prints the state after them that
// decides for this worker.
func (r *recorder) apply(ctx context.Context, circuit string, events []fusebox.Event) error {
	p, err := r.policyOf(circuit)
	if err != nil {
		return err
	}
	for i := range events {
		if events[i].Worker == "" {
			events[i].Worker = r.worker
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := r.store.Apply(ctx, circuit, p, events...)
	if err != nil {
		return fmt.Errorf("not recorded: %w", err)
	}
	status := s.For(r.worker).StatusAt(circuit, s.Clock())
	if r.json {
		return r.printJSON(status)
	}
	r.printf("%s is %s\n", circuit, phaseWords(&status, s.Clock()))
	return nil
}

// recordBatch is how many lines are recorded at once.
const recordBatch = 500

// lines records what standard input holds. What cannot be recorded is told with
// its line number, and does not keep the rest from being recorded.
func (r *recorder) lines(ctx context.Context, circuit string) error {
	var errs []error
	var order []string
	batches := map[string][]fusebox.Event{}
	flush := func() {
		for _, name := range order {
			if err := r.apply(ctx, name, batches[name]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %d records: %w", name, len(batches[name]), err))
			}
		}
		order, batches = nil, map[string][]fusebox.Event{}
	}
	in := bufio.NewReader(r.stdin)
	held := 0
	for number := 1; ; number++ {
		line, readErr := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, err := reported(line, circuit)
			if err != nil {
				errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			} else {
				if batches[e.Circuit] == nil {
					order = append(order, e.Circuit)
				}
				batches[e.Circuit] = append(batches[e.Circuit], e)
				held++
			}
		}
		if held >= recordBatch || readErr != nil {
			flush()
			held = 0
		}
		if readErr != nil {
			break
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("not everything was recorded:\n%w", errors.Join(errs...))
	}
	return nil
}

// reported reads one line of another program. Only evidence can be reported:
// what the guard itself records is not for others to say.
func reported(line []byte, circuit string) (fusebox.Event, error) {
	e, err := fusebox.ParseEvent(line)
	if err != nil {
		return e, err
	}
	if e.Kind != fusebox.KindEvidence {
		return e, fmt.Errorf("kind %q: want evidence, which has no kind", e.Kind)
	}
	if e.Circuit == "" {
		e.Circuit = circuit
	}
	if e.Circuit == "" {
		return e, errors.New("it names no circuit, and neither does --circuit")
	}
	e.State = nil
	e.Error = fusebox.ShortText(e.Error)
	return e, nil
}
