package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// longOutage is the story of the long outage.
func longOutage(t *testing.T, calls int, change func(p *fusebox.Policy)) Outage {
	p := policy(t, func(p *fusebox.Policy) {
		p.Cooldown.Calls = 2
		if change != nil {
			change(p)
		}
	}, "streak=3")
	return Outage{Calls: calls, Runs: 13, MaxRetries: 3, Every: time.Second, Policy: &p}
}

func outageOutput(o Outage) string {
	var out []byte
	s := o.Simulate(func(r OutageRun) { out = r.AppendLine(out) })
	return string(s.AppendLine(out))
}

func TestOutage(t *testing.T) {
	got := outageOutput(longOutage(t, 15, nil))
	want := `{"run":1,"before":"closed","after":"closed","calls":3,"outcome":"failed"}
{"run":2,"before":"closed","after":"closed","calls":3,"outcome":"failed"}
{"run":3,"before":"closed","after":"open","calls":3,"outcome":"failed"}
{"run":4,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":5,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":6,"before":"open","after":"open","calls":3,"outcome":"failed","probe":true}
{"run":7,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":8,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":9,"before":"open","after":"open","calls":3,"outcome":"failed","probe":true}
{"run":10,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":11,"before":"open","after":"open","calls":0,"outcome":"denied"}
{"run":12,"before":"open","after":"closed","calls":1,"outcome":"ok","probe":true}
{"run":13,"before":"closed","after":"closed","calls":1,"outcome":"ok"}
{"summary":{"runs":13,"calls":17,"denied":6,"ok":2,"failed":5,"probes":3,"probes_failed":2}}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestOutageVariants(t *testing.T) {
	tests := []struct {
		name  string
		o     Outage
		lines []string // that the output holds
	}{
		{"that ends three calls earlier closes three runs earlier", longOutage(t, 12, nil),
			[]string{`{"run":9,"before":"open","after":"closed","calls":1,"outcome":"ok","probe":true}`}},
		{"costs 23 calls without a circuit", func() Outage { o := longOutage(t, 15, nil); o.Policy = nil; return o }(),
			[]string{`{"summary":{"runs":13,"calls":23,"denied":0,"ok":8,"failed":5,"probes":0,"probes_failed":0}}`}},
		{"is probed by one call each, where probes have one attempt", longOutage(t, 15, func(p *fusebox.Policy) { p.Probe.Attempts = 1 }),
			[]string{`{"run":6,"before":"open","after":"open","calls":1,"outcome":"failed","probe":true}`,
				`{"summary":{"runs":13,"calls":12,"denied":7,"ok":0,"failed":6,"probes":3,"probes_failed":3}}`}},
		{"is probed by every run without a cooldown", longOutage(t, 15, func(p *fusebox.Policy) { p.Cooldown.Calls = 0 }),
			[]string{`{"run":4,"before":"open","after":"open","calls":3,"outcome":"failed","probe":true}`,
				`{"summary":{"runs":13,"calls":23,"denied":0,"ok":8,"failed":5,"probes":3,"probes_failed":2}}`}},
		{"is half-open between two probes that must succeed", longOutage(t, 9, func(p *fusebox.Policy) { p.Probe.CloseAfter = 2 }),
			[]string{`{"run":6,"before":"open","after":"half-open","calls":1,"outcome":"ok","probe":true}`,
				`{"run":7,"before":"half-open","after":"closed","calls":1,"outcome":"ok","probe":true}`}},
		{"is probed by the clock, where the cooldown is a time", longOutage(t, 12, func(p *fusebox.Policy) { p.Cooldown = fusebox.Cooldown{After: 4 * time.Second, Growth: 1} }),
			[]string{`{"run":6,"before":"open","after":"open","calls":0,"outcome":"denied"}`,
				`{"run":7,"before":"open","after":"open","calls":3,"outcome":"failed","probe":true}`}},
		{"that never was", longOutage(t, 0, nil),
			[]string{`{"summary":{"runs":13,"calls":13,"denied":0,"ok":13,"failed":0,"probes":0,"probes_failed":0}}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := outageOutput(test.o)
			for _, line := range test.lines {
				if !strings.Contains(got, line+"\n") {
					t.Errorf("got\n%slacks\n%s", got, line)
				}
			}
		})
	}
}

func ExampleOutage() {
	p := fusebox.Policy{
		Trip:     []fusebox.Trip{fusebox.Streak(3)},
		Cooldown: fusebox.Cooldown{Calls: 2},
		Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1},
	}
	o := Outage{Calls: 15, Runs: 13, MaxRetries: 3, Every: time.Second, Policy: &p}
	with := o.Simulate(func(OutageRun) {})
	o.Policy = nil
	without := o.Simulate(func(OutageRun) {})
	fmt.Printf("%d calls with a circuit, %d without\n", with.Calls, without.Calls)
	// Output: 17 calls with a circuit, 23 without
}
