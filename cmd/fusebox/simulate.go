package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/replay"
)

func (a *app) simulateCommand() *cobra.Command {
	return group("simulate", "Say what a policy does in an outage that never was",
		a.simulateOutageCommand(), a.simulateFleetCommand())
}

// simulated is the policy of the stories that the simulations tell by default.
func simulated(c fusebox.Cooldown) fusebox.Policy {
	p := config.BarePolicy()
	p.Trip = []fusebox.Trip{fusebox.Streak(3)}
	c.Growth = p.Cooldown.Growth
	p.Cooldown = c
	return p
}

// circuitFlag says whose policy of a configuration is simulated.
func circuitFlag(c *cobra.Command, circuit *string) {
	c.Flags().StringVar(circuit, "circuit", "", "`NAME` of the circuit whose policy in --config is tried out")
}

// one is the policy of the one circuit that a simulation is about.
func (w *whatIf) one(c *cobra.Command, circuit string) (fusebox.Policy, error) {
	if err := w.read(c); err != nil {
		return fusebox.Policy{}, err
	}
	switch {
	case circuit == "" && w.file != nil:
		return fusebox.Policy{}, usagef("--config has a policy for each circuit: say with --circuit which is tried out")
	case circuit != "" && w.file == nil:
		return fusebox.Policy{}, usagef("--circuit names a policy of --config: give that too, or leave it out")
	case circuit == "":
		return w.policy("")
	}
	names, err := canonicalNames([]string{circuit})
	if err != nil {
		return fusebox.Policy{}, err
	}
	return w.policy(names[0])
}

func (a *app) simulateOutageCommand() *cobra.Command {
	var o replay.Outage
	var circuit string
	var without bool
	var try *whatIf
	c := &cobra.Command{
		Use:   "outage [policy flags]",
		Short: "One caller, and a dependency that is down for its first calls",
		Long: `outage starts runs one after the other. Each asks the circuit and, if admitted,
calls the dependency until a call succeeds, at most --max-retries times. The
dependency fails its first --outage-calls calls. A run's result is one piece of
evidence, however many calls it made; so a probe may cost several calls, unless
--probe-attempts says otherwise.`,
		Example: `  fusebox simulate outage --outage-calls 15 --trip streak=3 --cooldown-calls 2
  fusebox simulate outage --outage-calls 15 --no-circuit`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := try.one(c, circuit)
			if err != nil {
				return err
			}
			if o.Calls < 0 || o.Runs < 1 || o.MaxRetries < 1 || o.Every < 0 {
				return usagef("want --outage-calls and --every of 0 or more, --runs and --max-retries of 1 or more")
			}
			if !without {
				o.Policy = &p
			}
			return a.simulateOutage(o)
		},
	}
	try = a.whatIf(c, simulated(fusebox.Cooldown{Calls: 2}))
	circuitFlag(c, &circuit)
	f := c.Flags()
	f.IntVar(&o.Calls, "outage-calls", 15, "calls that fail before the dependency is back")
	f.IntVar(&o.Runs, "runs", 13, "runs that the caller starts")
	f.IntVar(&o.MaxRetries, "max-retries", 3, "calls a run makes at most")
	f.DurationVar(&o.Every, "every", time.Second, "from one run to the next, for policies that look at the clock")
	f.Uint64Var(&o.Seed, "seed", 1, "decides on the jitter of cooldowns")
	f.BoolVar(&without, "no-circuit", false, "what the same costs without a circuit")
	f.Lookup("trip").Usage += " (default streak=3)"
	f.Lookup("cooldown-calls").Usage += " (default 2)"
	return c
}

func (a *app) simulateOutage(o replay.Outage) error {
	if a.json {
		var out []byte
		s := o.Simulate(func(r replay.OutageRun) { out = r.AppendLine(out) })
		_, err := a.stdout.Write(s.AppendLine(out))
		return err
	}
	t := &table{}
	t.row("RUN", "BEFORE", "AFTER", "CALLS", "OUTCOME", "PROBE")
	s := o.Simulate(func(r replay.OutageRun) {
		probe := " "
		if r.Probe {
			probe = "yes"
		}
		t.row(r.Run, r.Before, r.After, r.Calls, cell{r.Outcome, map[string]colour{"ok": green, "failed": red}[r.Outcome]}, probe)
	})
	a.printTable(t)
	a.printf("\n%d calls in %d runs: %d ok, %d failed, %d denied; %d of %d probes failed\n",
		s.Calls, s.Runs, s.OK, s.Failed, s.Denied, s.ProbesFailed, s.Probes)
	if o.Policy != nil {
		o.Policy = nil
		without := o.Simulate(func(replay.OutageRun) {})
		a.printf("without a circuit: %d calls\n", without.Calls)
	}
	return nil
}

func (a *app) simulateFleetCommand() *cobra.Command {
	var f replay.Fleet
	var circuit string
	var try *whatIf
	c := &cobra.Command{
		Use:   "fleet [policy flags]",
		Short: "A fleet of replicas, and a provider that is down for a while",
		Long: `fleet simulates replicas that call one provider at random, in virtual time.
Each has a circuit of its own, so that the provider sees the threshold times the
number of replicas; or, with --shared, they have one, and know what it decides
--propagation later. The same flags always give the same numbers.`,
		Example: `  fusebox simulate fleet --replicas 10 --trip streak=3 --cooldown 120s --jitter 0.2
  fusebox simulate fleet --replicas 10 --shared --propagation 5ms`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if f.Policy, err = try.one(c, circuit); err != nil {
				return err
			}
			if !c.Flags().Changed("down-latency") {
				f.DownLatency = f.Latency
			}
			if err := checkFleet(&f); err != nil {
				return err
			}
			if !f.Shared && c.Flags().Changed("propagation") {
				a.warnf("--propagation means something only with --shared: circuits of a replica's own know at once")
			}
			s := f.Simulate()
			if a.json {
				_, err := a.stdout.Write(s.AppendLine(nil))
				return err
			}
			a.printFleet(&f, &s)
			return nil
		},
	}
	try = a.whatIf(c, simulated(fusebox.Cooldown{After: 2 * time.Minute}))
	circuitFlag(c, &circuit)
	flags := c.Flags()
	flags.IntVar(&f.Replicas, "replicas", 10, "how many replicas call")
	flags.Float64Var(&f.Rate, "rate", 1, "calls a second of each replica, on average")
	flags.DurationVar(&f.Before, "before", time.Minute, "normal operation before the outage")
	flags.DurationVar(&f.Outage, "outage", 10*time.Minute, "how long the provider is down")
	flags.DurationVar(&f.Latency, "latency", 200*time.Millisecond, "how long a call takes")
	flags.DurationVar(&f.DownLatency, "down-latency", 0, "how long a call takes to fail while the provider is down (default as --latency)")
	flags.Uint64Var(&f.Seed, "seed", 1, "decides on when calls are made, and on jitter")
	flags.BoolVar(&f.Shared, "shared", false, "one circuit for all replicas")
	flags.DurationVar(&f.Propagation, "propagation", 5*time.Millisecond, "how long it takes until replicas know what a shared circuit decided")
	flags.Lookup("trip").Usage += " (default streak=3)"
	flags.Lookup("cooldown").Usage += " (default 2m)"
	return c
}

func checkFleet(f *replay.Fleet) error {
	switch {
	case f.Replicas < 1 || f.Replicas > 1_000_000:
		return usagef("--replicas: want 1 to 1000000, have %d", f.Replicas)
	case !(f.Rate >= 1e-6 && f.Rate <= 1e6):
		return usagef("--rate: want 0.000001 to 1000000 calls a second, have %v", f.Rate)
	case f.Outage <= 0:
		return usagef("--outage: want a duration above 0, have %v", f.Outage)
	case f.Before < 0 || f.Latency < 0 || f.DownLatency < 0 || f.Propagation < 0:
		return usagef("--before, --latency, --down-latency, --propagation: want 0 or more")
	case f.Before > math.MaxInt64/8 || f.Outage > math.MaxInt64/8 || f.Latency > math.MaxInt64/8 || f.DownLatency > math.MaxInt64/8:
		return usagef("want durations of less than 36 years")
	}
	return nil
}

func (a *app) printFleet(f *replay.Fleet, s *replay.FleetSummary) {
	whose := "each with a circuit of its own"
	if f.Shared {
		whose = fmt.Sprintf("with one circuit, propagation %v", f.Propagation)
	}
	a.printf("%d replicas, %s\n\n", f.Replicas, whose)
	a.printf("calls to the provider while it was down  %d\n", s.CallsDown)
	a.printf("  of these before a circuit opened       %d\n", s.CallsDownBeforeOpen)
	a.printf("probes                                   %d\n", s.Probes)
	a.printf("  most within one second                 %d\n", s.ProbesPeak)
	a.printf("until the last replica stopped           %s\n", secondsOr(s.Detect, "not all of them did"))
	a.printf("from its return until the last called    %s\n", secondsOr(s.Recover, "not all of them did within a day"))
}

func secondsOr(s *float64, or string) string {
	if s == nil {
		return or
	}
	return fmt.Sprintf("%.1f s", *s)
}
