package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
)

// PolicyFlags are the flags that say a policy, the same for every command that
// takes one. They are the highest level of a circuit's settings.
type PolicyFlags struct {
	set *pflag.FlagSet

	trip                  []string
	onClass               []string
	fasterThan, overdue   time.Duration
	distinct              bool
	cooldown, cooldownMax time.Duration
	cooldownCalls         int
	jitter, growth        float64
	probes, closeAfter    int
	probeLease            time.Duration
	probeAttempts         int
}

// policyFlags names each flag by the field of the policy that it sets.
var policyFlags = map[string]string{
	"trip": "trip", "on_class": "on-class", "faster_than": "faster-than", "overdue": "overdue", "distinct": "distinct",
	"cooldown.after": "cooldown", "cooldown.calls": "cooldown-calls", "cooldown.jitter": "jitter",
	"cooldown.growth": "growth", "cooldown.max": "cooldown-max", "probe.concurrent": "probes",
	"probe.close_after": "close-after", "probe.lease": "probe-lease", "probe.attempts": "probe-attempts",
}

// BarePolicy is what replay and simulate start from: no rules but auth at once,
// no defaults of a kind, no jitter, no growth, one probe, one success to close,
// probes without a deadline and with as many attempts as a normal call.
func BarePolicy() fusebox.Policy {
	return fusebox.Policy{
		OnClass:  []fusebox.Class{fusebox.ClassAuth},
		Cooldown: fusebox.Cooldown{Growth: 1},
		Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1},
	}
}

// Register adds the flags to fs. It is to be called once. A flag that is not
// given leaves what is below it, which differs by command and circuit; so none
// has a default of its own.
func (f *PolicyFlags) Register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringArrayVar(&f.trip, "trip", nil, "`RULE` that opens the circuit, any of several: streak=3 | count=3,within=60m | "+
		"count=5,of=10,within=60s | rate=0.5,within=60s,calls=20 | slow=0.5,limit=10s,within=60s,calls=20")
	fs.StringSliceVar(&f.onClass, "on-class", nil, "failure `CLASS` that opens it at once, such as auth; may be given several times")
	fs.DurationVar(&f.fasterThan, "faster-than", 0, "count only failures that took no longer than this")
	fs.DurationVar(&f.overdue, "overdue", 0, "count a call that has run for so long as failed")
	fs.BoolVar(&f.distinct, "distinct", false, "count repeats of one exact call by one run once")
	fs.DurationVar(&f.cooldown, "cooldown", 0, "how long it stays open")
	fs.IntVar(&f.cooldownCalls, "cooldown-calls", 0, "how many refused calls it stays open for, instead of a time")
	fs.Float64Var(&f.jitter, "jitter", 0, "share of the cooldown that is added at random, 0 to 1")
	fs.Float64Var(&f.growth, "growth", 0, "factor of the cooldown after each failed probe; 1 = none")
	fs.DurationVar(&f.cooldownMax, "cooldown-max", 0, "longest cooldown")
	fs.IntVar(&f.probes, "probes", 0, "probes at once, at least 1")
	fs.IntVar(&f.closeAfter, "close-after", 0, "successful probes that close it, at least 1")
	fs.DurationVar(&f.probeLease, "probe-lease", 0, "after which a probe that has not reported is void; 0 = never")
	fs.IntVar(&f.probeAttempts, "probe-attempts", 0, "attempts of a probe; 0 = as many as a normal call")
}

// Given reports whether any of the flags was given.
func (f *PolicyFlags) Given() bool {
	for _, name := range policyFlags {
		if f.changed(name) {
			return true
		}
	}
	return false
}

func (f *PolicyFlags) changed(name string) bool { return f.set != nil && f.set.Changed(name) }

// Policy returns base with the given flags on top, or every mistake in them,
// joined; each names its flag and matches [fusebox.ErrPolicy].
func (f *PolicyFlags) Policy(base fusebox.Policy) (fusebox.Policy, error) {
	var errs []error
	bad := func(flag, want string) {
		errs = append(errs, &fusebox.PolicyError{Field: "--" + flag, Want: want})
	}
	if f.changed("cooldown") && f.changed("cooldown-calls") {
		bad("cooldown-calls", "want a time (--cooldown) or a number of refused calls (--cooldown-calls), have both: leave one out")
	}
	if f.changed("cooldown") && f.cooldownMax > 0 && f.cooldownMax < f.cooldown {
		bad("cooldown-max", fmt.Sprintf("want at least --cooldown (%v), have %v", f.cooldown, f.cooldownMax))
	}
	l := f.layer(bad)
	s := Settings{Policy: base}
	l.apply(&s)
	for _, e := range split(s.Policy.Validate()) {
		if flag := policyFlags[e.Field]; f.changed(flag) {
			bad(flag, e.Want)
			continue
		}
		errs = append(errs, e)
	}
	if err := errors.Join(errs...); err != nil {
		return base, err
	}
	return s.Policy, nil
}

// layer holds the flags that were given.
func (f *PolicyFlags) layer(bad func(flag, want string)) layer {
	l := layer{
		fasterThan: given(f, "faster-than", &f.fasterThan),
		overdue:    given(f, "overdue", &f.overdue),
		distinct:   given(f, "distinct", &f.distinct),
		after:      given(f, "cooldown", &f.cooldown),
		calls:      given(f, "cooldown-calls", &f.cooldownCalls),
		jitter:     given(f, "jitter", &f.jitter),
		growth:     given(f, "growth", &f.growth),
		max:        given(f, "cooldown-max", &f.cooldownMax),
		concurrent: given(f, "probes", &f.probes),
		closeAfter: given(f, "close-after", &f.closeAfter),
		lease:      given(f, "probe-lease", &f.probeLease),
		attempts:   given(f, "probe-attempts", &f.probeAttempts),
	}
	if f.changed("trip") {
		l.trip = &[]fusebox.Trip{}
		for _, text := range f.trip {
			t, err := fusebox.ParseTrip(text)
			var e *fusebox.PolicyError
			if errors.As(err, &e) {
				bad("trip", e.Want)
				continue
			}
			*l.trip = append(*l.trip, t)
		}
	}
	if f.changed("on-class") {
		l.onClass = &[]fusebox.Class{}
		for _, text := range f.onClass {
			c, err := fusebox.ParseClass(text)
			if err != nil {
				bad("on-class", strings.TrimPrefix(err.Error(), "fusebox: "))
				continue
			}
			*l.onClass = append(*l.onClass, c)
		}
	}
	return l
}

// given returns value where the flag was given, else nil.
func given[T any](f *PolicyFlags, flag string, value *T) *T {
	if !f.changed(flag) {
		return nil
	}
	return value
}
