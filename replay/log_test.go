package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// morning is the story of the interleaved sessions.
const morning = `{"at":"2026-11-29T12:01:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":5000}
{"at":"2026-11-29T12:03:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":7000}
{"at":"2026-11-29T12:05:00Z","circuit":"session/a","outcome":"success","ms":1080000}
{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":6000}
{"at":"2026-11-29T12:14:00Z","circuit":"session/a","outcome":"success","ms":660000}
{"at":"2026-11-29T12:18:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":4000}
`

// bare trips at a failure of class auth alone, and its cooldown is over at once.
func bare() fusebox.Policy {
	return fusebox.Policy{
		OnClass:  []fusebox.Class{fusebox.ClassAuth},
		Cooldown: fusebox.Cooldown{Growth: 1},
		Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1},
	}
}

// policy is bare with rules and changes.
func policy(t *testing.T, change func(p *fusebox.Policy), trips ...string) fusebox.Policy {
	t.Helper()
	p := bare()
	for _, s := range trips {
		trip, err := fusebox.ParseTrip(s)
		if err != nil {
			t.Fatal(err)
		}
		p.Trip = append(p.Trip, trip)
	}
	if change != nil {
		change(&p)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func cooldown(d time.Duration) func(p *fusebox.Policy) {
	return func(p *fusebox.Policy) { p.Cooldown.After = d }
}

// output is what replay prints with --json.
func output(t *testing.T, o Options, files ...string) string {
	t.Helper()
	var out []byte
	o.Changed = func(tr fusebox.Transition) error {
		out = AppendTransition(out, tr)
		return nil
	}
	l := NewLog(o)
	for _, f := range files {
		if err := l.Read(strings.NewReader(f)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := l.Replay()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return string(r.AppendLines(out))
}

func always(p fusebox.Policy) func(string) (fusebox.Policy, error) {
	return func(string) (fusebox.Policy, error) { return p, nil }
}

// at makes lines of evidence shorter to write: one per entry, "seconds outcome
// ms more", in 2026-01-01, circuit c.
func lines(entries ...string) string {
	var b strings.Builder
	for _, e := range entries {
		f := strings.SplitN(e, " ", 4)
		ms := "0"
		if len(f) > 2 {
			ms = f[2]
		}
		more := ""
		if len(f) > 3 {
			more = "," + f[3]
		}
		fmt.Fprintf(&b, `{"at":"2026-01-01T00:%s:%sZ","circuit":"c","outcome":%q,"ms":%s%s}`+"\n", f[0][:2], f[0][3:], f[1], ms, more)
	}
	return b.String()
}

func TestReplay(t *testing.T) {
	tests := []struct {
		name   string
		trips  []string
		change func(p *fusebox.Policy)
		log    string
		want   string
	}{
		{
			"the third failure never came: a count sees the interleaved failures",
			[]string{"count=3,within=60m"}, cooldown(time.Hour), morning,
			`{"at":"2026-11-29T12:09:00Z","circuit":"session/a","from":"closed","to":"open","version":1,"failures":3}
{"summary":{"circuit":"session/a","calls":6,"admitted":5,"denied":1,"failures_seen":3,"failures_spared":1,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"the third failure never came: a streak does not",
			[]string{"streak=3"}, cooldown(time.Hour), morning,
			`{"summary":{"circuit":"session/a","calls":6,"admitted":6,"denied":0,"failures_seen":4,"failures_spared":0,"successes_denied":0,"opened":0,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"half-open begins with the first call asked at the deadline itself",
			[]string{"streak=1"}, cooldown(10 * time.Second),
			lines("00:01 failure", "00:10.999999999 success", "00:11 failure", "00:21 success", "00:22 success"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:11Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:11Z","circuit":"c","from":"half-open","to":"open","version":3,"failures":1}
{"at":"2026-01-01T00:00:21Z","circuit":"c","from":"open","to":"half-open","version":4,"failures":0}
{"at":"2026-01-01T00:00:21Z","circuit":"c","from":"half-open","to":"closed","version":5,"failures":0}
{"summary":{"circuit":"c","calls":5,"admitted":4,"denied":1,"failures_seen":2,"failures_spared":0,"successes_denied":1,"opened":1,"probes":2,"probes_failed":1,"malformed":0}}
`,
		},
		{
			"half-open bears the start of the call, and one probe is out at a time",
			[]string{"streak=1"}, cooldown(10 * time.Second),
			lines("00:01 failure", "00:15 success", "00:20 success 8000", "00:16 failure"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:12Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:20Z","circuit":"c","from":"half-open","to":"closed","version":3,"failures":0}
{"summary":{"circuit":"c","calls":4,"admitted":2,"denied":2,"failures_seen":1,"failures_spared":1,"successes_denied":1,"opened":1,"probes":1,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"ends come before starts of the same instant",
			[]string{"streak=1"}, cooldown(time.Minute),
			lines("00:02 success 1000", "00:01 failure 1000"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"summary":{"circuit":"c","calls":2,"admitted":1,"denied":1,"failures_seen":1,"failures_spared":0,"successes_denied":1,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a call of no duration starts and ends in one step at its place among the starts",
			[]string{"streak=1"}, cooldown(time.Minute),
			lines("00:01 success 0", "00:01 failure 0", "00:01 success 0", "00:02 success 1000"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"summary":{"circuit":"c","calls":4,"admitted":2,"denied":2,"failures_seen":1,"failures_spared":0,"successes_denied":2,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a run of successes is spread evenly, both ends included",
			[]string{"streak=2"}, cooldown(3 * time.Second),
			lines("00:02.5 failure", "00:03.5 failure", `00:09 success 0 "n":10,"since":"2026-01-01T00:00:00Z"`),
			`{"summary":{"circuit":"c","calls":12,"admitted":12,"denied":0,"failures_seen":2,"failures_spared":0,"successes_denied":0,"opened":0,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"each call of a run has the elapsed time of the run",
			[]string{"streak=2"}, cooldown(3 * time.Second),
			lines("00:03.1 failure", "00:03.5 failure", `00:09 success 1000 "n":10,"since":"2026-01-01T00:00:00Z"`),
			`{"at":"2026-01-01T00:00:03.5Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"at":"2026-01-01T00:00:07Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:08Z","circuit":"c","from":"half-open","to":"closed","version":3,"failures":0}
{"summary":{"circuit":"c","calls":12,"admitted":9,"denied":3,"failures_seen":2,"failures_spared":0,"successes_denied":3,"opened":1,"probes":1,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"rejected works, throttled and canceled are neutral and set no throttle",
			[]string{"streak=2"}, cooldown(time.Minute),
			lines("00:01 failure", "00:02 rejected", "00:03 failure", `00:04 throttled 0 "until":"2026-01-01T00:30:00Z"`, "00:05 canceled", "00:06 failure"),
			`{"at":"2026-01-01T00:00:06Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"summary":{"circuit":"c","calls":6,"admitted":6,"denied":0,"failures_seen":3,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a neutral probe gives its slot back",
			[]string{"streak=1"}, cooldown(time.Second),
			lines("00:01 failure", "00:02 canceled", "00:03 throttled", "00:04 success"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:02Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:04Z","circuit":"c","from":"half-open","to":"closed","version":3,"failures":0}
{"summary":{"circuit":"c","calls":4,"admitted":4,"denied":0,"failures_seen":1,"failures_spared":0,"successes_denied":0,"opened":1,"probes":3,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a failure that faster-than excludes worked, whatever its class",
			[]string{"streak=2"}, func(p *fusebox.Policy) { p.FasterThan, p.Cooldown.After = 30*time.Second, time.Minute },
			lines("00:01 failure", `02:00 failure 30001 "class":"auth"`, "02:01 failure 30000", "02:02 failure"),
			`{"at":"2026-01-01T00:02:02Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"summary":{"circuit":"c","calls":4,"admitted":4,"denied":0,"failures_seen":4,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"class auth trips at once, with one failure",
			[]string{"streak=3"}, cooldown(time.Minute),
			lines("00:01 failure", "00:02 failure", `00:03 failure 0 "class":"auth"`),
			`{"at":"2026-01-01T00:00:03Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"summary":{"circuit":"c","calls":3,"admitted":3,"denied":0,"failures_seen":3,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"an overdue call counts when it is, and its end has no vote",
			[]string{"streak=2"}, func(p *fusebox.Policy) { p.Overdue, p.Cooldown.After = 5*time.Second, 10*time.Second },
			lines("00:30 success 30000", "00:30 failure 29000", "00:07 success 0", "00:17 success 0"),
			`{"at":"2026-01-01T00:00:06Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"at":"2026-01-01T00:00:17Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:17Z","circuit":"c","from":"half-open","to":"closed","version":3,"failures":0}
{"summary":{"circuit":"c","calls":4,"admitted":3,"denied":1,"failures_seen":1,"failures_spared":0,"successes_denied":1,"opened":1,"probes":1,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a call that was counted before its end and the record of its end are one call",
			[]string{"streak=2"}, cooldown(time.Minute),
			lines(`00:05 failure 5000 "overdue":true`, `00:05 success 5000`, `00:05 failure 4000 "overdue":true`, `00:09 success 9000 "late":true`,
				`00:10 failure 9000 "late":true`, `00:11 failure 1000 "late":true`),
			`{"at":"2026-01-01T00:00:11Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"summary":{"circuit":"c","calls":4,"admitted":4,"denied":0,"failures_seen":2,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"a call that was counted before its end, and whose end nobody saw",
			[]string{"streak=2"}, cooldown(time.Minute),
			lines(`00:05 failure 5000 "overdue":true`, `00:06 failure 5000 "overdue":true`, `00:09 success 8000`),
			`{"at":"2026-01-01T00:00:06Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"summary":{"circuit":"c","calls":3,"admitted":3,"denied":0,"failures_seen":2,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"of: the failures lie among the last results since the circuit closed",
			[]string{"count=2,of=3,within=60s"}, cooldown(time.Second),
			lines("00:01 failure", "00:02 success", "00:03 canceled", "00:04 success", "00:05 failure", "00:06 rejected", "00:07 failure"),
			`{"at":"2026-01-01T00:00:07Z","circuit":"c","from":"closed","to":"open","version":1,"failures":2}
{"summary":{"circuit":"c","calls":7,"admitted":7,"denied":0,"failures_seen":3,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"cooldown by calls: after two denied ones the next is the probe",
			[]string{"streak=1"}, func(p *fusebox.Policy) { p.Cooldown.Calls = 2 },
			lines("00:01 failure", "00:02 failure", "00:03 success", "00:04 failure", "00:05 failure", "00:06 failure", "00:07 success"),
			`{"at":"2026-01-01T00:00:01Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:04Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:04Z","circuit":"c","from":"half-open","to":"open","version":3,"failures":1}
{"at":"2026-01-01T00:00:07Z","circuit":"c","from":"open","to":"half-open","version":4,"failures":0}
{"at":"2026-01-01T00:00:07Z","circuit":"c","from":"half-open","to":"closed","version":5,"failures":0}
{"summary":{"circuit":"c","calls":7,"admitted":3,"denied":4,"failures_seen":2,"failures_spared":3,"successes_denied":1,"opened":1,"probes":2,"probes_failed":1,"malformed":0}}
`,
		},
		{
			"a probe's lease lapses, another probes, and the old verdict is void",
			[]string{"streak=1"}, func(p *fusebox.Policy) { p.Cooldown.After, p.Probe.Lease = 10*time.Second, 5*time.Second },
			lines("00:00 failure", "00:30 failure 20000", "00:14.9 success", "00:16 success 1000", "00:40 success"),
			`{"at":"2026-01-01T00:00:00Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:10Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:16Z","circuit":"c","from":"half-open","to":"closed","version":3,"failures":0}
{"summary":{"circuit":"c","calls":5,"admitted":4,"denied":1,"failures_seen":2,"failures_spared":0,"successes_denied":1,"opened":1,"probes":2,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"distinct: repeats of one call by one run are one piece of evidence",
			[]string{"streak=3"}, func(p *fusebox.Policy) { p.Distinct, p.Cooldown.After = true, time.Minute },
			lines(`00:01 failure 0 "run":"r","call":"x"`, `00:02 failure 0 "run":"r","call":"x"`, `00:03 failure 0 "run":"r","call":"x"`,
				`00:04 failure 0 "run":"s","call":"x"`, `00:05 failure 0 "run":"r","call":"y"`),
			`{"at":"2026-01-01T00:00:05Z","circuit":"c","from":"closed","to":"open","version":1,"failures":3}
{"summary":{"circuit":"c","calls":5,"admitted":5,"denied":0,"failures_seen":5,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"growth doubles the cooldown after a failed probe, up to the maximum",
			[]string{"streak=1"}, func(p *fusebox.Policy) {
				p.Cooldown = fusebox.Cooldown{After: 10 * time.Second, Growth: 2, Max: 15 * time.Second}
			},
			lines("00:00 failure", "00:10 failure", "00:24 failure", "00:25 failure", "00:39 failure", "00:40 success"),
			`{"at":"2026-01-01T00:00:00Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"at":"2026-01-01T00:00:10Z","circuit":"c","from":"open","to":"half-open","version":2,"failures":0}
{"at":"2026-01-01T00:00:10Z","circuit":"c","from":"half-open","to":"open","version":3,"failures":1}
{"at":"2026-01-01T00:00:25Z","circuit":"c","from":"open","to":"half-open","version":4,"failures":0}
{"at":"2026-01-01T00:00:25Z","circuit":"c","from":"half-open","to":"open","version":5,"failures":1}
{"at":"2026-01-01T00:00:40Z","circuit":"c","from":"open","to":"half-open","version":6,"failures":0}
{"at":"2026-01-01T00:00:40Z","circuit":"c","from":"half-open","to":"closed","version":7,"failures":0}
{"summary":{"circuit":"c","calls":6,"admitted":4,"denied":2,"failures_seen":3,"failures_spared":2,"successes_denied":0,"opened":1,"probes":3,"probes_failed":2,"malformed":0}}
`,
		},
		{
			"the log's own decisions and unknown kinds are ignored, what is no record is counted",
			[]string{"streak=1"}, cooldown(time.Minute),
			lines("00:01 success") + `
{"at":"2026-01-01T00:00:02Z","circuit":"c","kind":"transition","from":"closed","to":"open","version":7,"until":"2027-01-01T00:00:00Z"}
{"at":"2026-01-01T00:00:02Z","circuit":"c","kind":"denied","n":12,"reason":"open"}
{"at":"2026-01-01T00:00:02Z","circuit":"c","kind":"hold","action":"held","to":"open"}
{"at":"2026-01-01T00:00:02Z","circuit":"c","kind":"throttle","until":"2026-01-02T00:00:00Z"}
{"at":"2026-01-01T00:00:02Z","circuit":"c","kind":"dream"}
{"at":"2026-01-01T00:00:03Z","circuit":"c","outcome":"success","colour":"blue"}
{"at":"2026-01-01T00:00:03Z","circuit":"c","outcome":"splendid"}
{"at":"yesterday","circuit":"c","outcome":"success"}
{"circuit":"c","outcome":"success"}
not JSON
{"at":"2026-01-01T00:00:04Z","circuit":"c","outco`,
			`{"summary":{"circuit":"c","calls":2,"admitted":2,"denied":0,"failures_seen":0,"failures_spared":0,"successes_denied":0,"opened":0,"probes":0,"probes_failed":0,"malformed":5}}
`,
		},
		{
			"other time zones are converted",
			[]string{"streak=1"}, cooldown(time.Minute),
			`{"at":"2026-01-01T02:00:01.5+02:00","circuit":"c","outcome":"failure"}` + "\n" + lines("00:01 success"),
			`{"at":"2026-01-01T00:00:01.5Z","circuit":"c","from":"closed","to":"open","version":1,"failures":1}
{"summary":{"circuit":"c","calls":2,"admitted":2,"denied":0,"failures_seen":1,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
		{
			"an empty log",
			[]string{"streak=1"}, nil, "",
			`{"summary":{"circuit":"","calls":0,"admitted":0,"denied":0,"failures_seen":0,"failures_spared":0,"successes_denied":0,"opened":0,"probes":0,"probes_failed":0,"malformed":0}}
`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, room := range []int{1, 2, 0} { // with and without the temporary file
				got := output(t, Options{Policy: always(policy(t, test.change, test.trips...)), room: room}, test.log)
				if got != test.want {
					t.Errorf("room %d: got\n%swant\n%s", room, got, test.want)
				}
			}
		})
	}
}

func TestReplaySeveralCircuits(t *testing.T) {
	log := `{"at":"2026-01-01T00:00:02Z","circuit":"tool/b","outcome":"failure"}
{"at":"2026-01-01T00:00:01Z","circuit":"Tool/A/","outcome":"failure"}
{"at":"2026-01-01T00:00:03Z","circuit":"tool/a","outcome":"failure"}
junk
{"at":"2026-01-01T00:00:04Z","outcome":"failure"}
`
	const (
		openedA = `{"at":"2026-01-01T00:00:01Z","circuit":"tool/a","from":"closed","to":"open","version":1,"failures":1}` + "\n"
		openedB = `{"at":"2026-01-01T00:00:02Z","circuit":"tool/b","from":"closed","to":"open","version":1,"failures":1}` + "\n"
	)
	p := always(policy(t, cooldown(time.Hour), "streak=1"))

	want := openedA + openedB +
		`{"at":"2026-01-01T00:00:04Z","circuit":"","from":"closed","to":"open","version":1,"failures":1}
{"summary":{"circuit":"","calls":1,"admitted":1,"denied":0,"failures_seen":1,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":1}}
{"summary":{"circuit":"tool/a","calls":2,"admitted":1,"denied":1,"failures_seen":1,"failures_spared":1,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0}}
{"summary":{"circuit":"tool/b","calls":1,"admitted":1,"denied":0,"failures_seen":1,"failures_spared":0,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0}}
`
	if got := output(t, Options{Policy: p}, log); got != want {
		t.Errorf("all: got\n%swant\n%s", got, want)
	}

	want = openedA +
		`{"summary":{"circuit":"tool/a","calls":3,"admitted":1,"denied":2,"failures_seen":1,"failures_spared":2,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":1}}
`
	if got := output(t, Options{Policy: p, Circuit: "tool/a"}, log); got != want {
		t.Errorf("one, which is also the name of what has none: got\n%swant\n%s", got, want)
	}
}

func TestReplaySeveralFilesTieInTheirOrder(t *testing.T) {
	p := policy(t, cooldown(time.Hour), "streak=1")
	a, b := lines("00:01 failure"), lines("00:01 success", "00:01 success")
	for _, room := range []int{1, 0} {
		o := Options{Policy: always(p), room: room}
		if got := output(t, o, a, b); !strings.Contains(got, `"denied":2`) {
			t.Errorf("the failure comes first: got %s", got)
		}
		if got := output(t, o, b, a); !strings.Contains(got, `"denied":0`) {
			t.Errorf("the failure comes last: got %s", got)
		}
	}
}

func TestReplayJitterFollowsTheSeed(t *testing.T) {
	p := policy(t, func(p *fusebox.Policy) { p.Cooldown.After, p.Cooldown.Jitter = 10*time.Second, 1 }, "streak=1")
	var b strings.Builder
	b.WriteString(lines("00:00 failure"))
	for s := range 250 {
		fmt.Fprintf(&b, `{"at":"2026-01-01T00:00:%02d.%d00Z","circuit":"c","outcome":"success"}`+"\n", s/10, s%10)
	}
	outputs := map[string]bool{}
	for seed := range uint64(5) {
		o := Options{Policy: always(p), Seed: seed}
		first := output(t, o, b.String())
		if again := output(t, o, b.String()); again != first {
			t.Fatalf("seed %d: the same replay differs:\n%s\n%s", seed, first, again)
		}
		outputs[first] = true
	}
	if len(outputs) < 3 {
		t.Errorf("5 seeds gave %d different replays", len(outputs))
	}
}

func TestReplayLongLines(t *testing.T) {
	good := lines("00:01 failure")
	long := `{"at":"2026-01-01T00:00:01Z","circuit":"c","outcome":"success","note":"` + strings.Repeat("x", 3*maxLine) + `"}`
	p := always(policy(t, nil, "streak=9"))
	for name, log := range map[string]string{
		"between":       good + long + "\n" + good,
		"last":          good + good + long,
		"without a gap": good + strings.TrimSuffix(good, "\n") + "\n" + long + "\n",
	} {
		got := output(t, Options{Policy: p}, log)
		if !strings.Contains(got, `"calls":2,`) || !strings.Contains(got, `"malformed":1}`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	broken := errors.New("broken")
	l := NewLog(Options{Policy: always(policy(t, nil, "streak=1"))})
	defer l.Close()
	if err := l.Read(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader's error: got %v", err)
	}

	l = NewLog(Options{Policy: always(policy(t, nil, "streak=1")), Changed: func(fusebox.Transition) error { return broken }})
	defer l.Close()
	if err := l.Read(strings.NewReader(lines("00:01 failure"))); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Replay(); !errors.Is(err, broken) {
		t.Errorf("a listener's error: got %v", err)
	}
}

func TestReplayPolicyError(t *testing.T) {
	broken := errors.New("broken")
	o := Options{Policy: func(string) (fusebox.Policy, error) { return fusebox.Policy{}, broken }}
	if _, err := NewLog(o).Replay(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestReplayWithoutATemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	t.Setenv("TMP", t.TempDir()+"/missing") // Windows
	l := NewLog(Options{Policy: always(policy(t, nil, "streak=1")), room: 1})
	defer l.Close()
	if err := l.Read(strings.NewReader(lines("00:01 failure"))); err == nil || !strings.Contains(err.Error(), "temporary") {
		t.Errorf("got %v, want an error that names the temporary file", err)
	}
}

func TestReplayProgress(t *testing.T) {
	var calls, last int64
	l := NewLog(Options{Policy: always(policy(t, nil, "streak=1")), Progress: func(done, all int64) {
		calls++
		if done <= last || done > all || all != 1<<17 {
			t.Errorf("progress %d of %d after %d", done, all, last)
		}
		last = done
	}})
	defer l.Close()
	for range 1 << 7 {
		if err := l.Read(strings.NewReader(strings.Repeat(lines("00:01 success"), 1<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Replay(); err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("told %d times, want 2", calls)
	}
}
