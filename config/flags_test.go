package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
)

func policyFlagsOf(t *testing.T, args string) *PolicyFlags {
	t.Helper()
	var f PolicyFlags
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Register(fs)
	if err := fs.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return &f
}

func TestFlagsGoOnTopKeyByKey(t *testing.T) {
	base := fusebox.DefaultPolicy("model")
	with := func(change func(p *fusebox.Policy)) fusebox.Policy {
		p := base
		change(&p)
		return p
	}
	for _, test := range []struct {
		args string
		want fusebox.Policy
	}{
		{"", base},
		{"--trip streak=3", with(func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{fusebox.Streak(3)} })},
		{"--trip count=5,of=10,within=60s --trip rate=0.5,within=60s,calls=20", with(func(p *fusebox.Policy) {
			p.Trip = []fusebox.Trip{fusebox.Count(5, time.Minute).Of(10), fusebox.Rate(0.5, time.Minute, 20)}
		})},
		{"--on-class crash,panic --on-class auth", with(func(p *fusebox.Policy) {
			p.OnClass = []fusebox.Class{fusebox.ClassCrash, fusebox.ClassPanic, fusebox.ClassAuth}
		})},
		{"--faster-than 30s --overdue 10s --distinct", with(func(p *fusebox.Policy) {
			p.FasterThan, p.Overdue, p.Distinct = 30*time.Second, 10*time.Second, true
		})},
		{"--cooldown 1h", with(func(p *fusebox.Policy) { p.Cooldown.After, p.Cooldown.Max = time.Hour, time.Hour })},
		{"--cooldown-calls 2", with(func(p *fusebox.Policy) { p.Cooldown.After, p.Cooldown.Calls = 0, 2 })},
		{"--jitter 0 --growth 3 --cooldown-max 1h", with(func(p *fusebox.Policy) {
			p.Cooldown.Jitter, p.Cooldown.Growth, p.Cooldown.Max = 0, 3, time.Hour
		})},
		{"--probes 2 --close-after 3 --probe-lease 30s --probe-attempts 0", with(func(p *fusebox.Policy) {
			p.Probe = fusebox.Probe{Concurrent: 2, CloseAfter: 3, Lease: 30 * time.Second}
		})},
	} {
		t.Run(test.args, func(t *testing.T) {
			f := policyFlagsOf(t, test.args)
			got, err := f.Policy(base)
			if err != nil || !got.Equal(test.want) {
				t.Errorf("have %+v, %v, want %+v", got, err, test.want)
			}
			if f.Given() != (test.args != "") {
				t.Errorf("Given is %v", f.Given())
			}
		})
	}
}

func TestFlagsOnABarePolicy(t *testing.T) {
	got, err := policyFlagsOf(t, "--trip count=3,within=60m --cooldown 1h").Policy(BarePolicy())
	want := fusebox.Policy{Trip: []fusebox.Trip{fusebox.Count(3, time.Hour)}, OnClass: []fusebox.Class{fusebox.ClassAuth},
		Cooldown: fusebox.Cooldown{After: time.Hour, Growth: 1}, Probe: fusebox.Probe{Concurrent: 1, CloseAfter: 1}}
	if err != nil || !got.Equal(want) {
		t.Errorf("have %+v, %v, want %+v", got, err, want)
	}
	if err := BarePolicy().Validate(); err != nil {
		t.Error(err)
	}
}

func TestEveryBadFlagIsNamed(t *testing.T) {
	for _, test := range []struct {
		args, flags string
	}{
		{"--trip streak=0", "--trip"},
		{"--trip streak", "--trip"},
		{"--on-class atuh", "--on-class"},
		{"--cooldown 1m --cooldown-calls 2", "--cooldown-calls"},
		{"--cooldown 1m --cooldown-max 1s", "--cooldown-max"},
		{"--jitter 2 --growth 0.5 --probes 0", "--jitter --growth --probes"},
		{"--cooldown -1s --trip x", "--trip --cooldown"},
	} {
		t.Run(test.args, func(t *testing.T) {
			_, err := policyFlagsOf(t, test.args).Policy(fusebox.DefaultPolicy("model"))
			if !errors.Is(err, fusebox.ErrPolicy) {
				t.Fatalf("have %v", err)
			}
			if n := len(strings.Split(err.Error(), "\n")); n != len(strings.Fields(test.flags)) {
				t.Errorf("have %d mistakes, want those of %s:\n%v", n, test.flags, err)
			}
			for _, flag := range strings.Fields(test.flags) {
				if !strings.Contains(err.Error(), "fusebox: policy: "+flag+": ") {
					t.Errorf("%s is not named in %q", flag, err)
				}
			}
		})
	}
}
