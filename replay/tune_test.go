package replay

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// recorded is a log of one call every `every`, of which a share fails, with an
// outage in the middle that lasts for so many calls.
func recorded(calls, outage int, every time.Duration, share float64) string {
	r := rand.New(rand.NewPCG(3, 4))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b []byte
	for i := range calls {
		e := fusebox.Event{At: start.Add(time.Duration(i) * every), Circuit: "model/a", Elapsed: 200 * time.Millisecond}
		down := i >= calls/2 && i < calls/2+outage
		if r.Float64() < share || down {
			e.Outcome, e.Class = fusebox.Failure, fusebox.ClassServer
		}
		b = append(e.AppendJSON(b), '\n')
	}
	return string(b)
}

func tune(t *testing.T, log string, o TuneOptions) []Tuning {
	t.Helper()
	p := policy(t, cooldown(30*time.Second))
	l := NewLog(Options{Policy: always(p)})
	defer l.Close()
	if err := l.Read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	tunings, err := l.Tune(o)
	if err != nil {
		t.Fatal(err)
	}
	return tunings
}

var monthlyTarget = TuneOptions{Target: Target{1, 30 * 24 * time.Hour}, Within: time.Minute}

func (t *Tuning) candidate(trip string) Candidate {
	return t.Candidates[slices.IndexFunc(t.Candidates, func(c Candidate) bool { return c.Trip == trip })]
}

func TestTuneSetsIncidentsApart(t *testing.T) {
	got := tune(t, recorded(20_000, 200, 10*time.Second, 0.01), monthlyTarget)[0]
	if len(got.Incidents) != 1 || got.Incidents[0].Failures < 200 || got.Incidents[0].Failures > 204 {
		t.Fatalf("incidents %+v, want the one of 200 calls", got.Incidents)
	}
	n := got.Normal
	if math.Abs(n.Share-0.01) > 0.002 || n.ShareLow > 0.01 || n.ShareHigh < 0.01 || math.Abs(n.CallsPerS-0.1) > 1e-3 || n.LongestStreak > 3 {
		t.Errorf("normal operation %+v, want 1 %% of 0.1 calls a second, and no streak of the outage", n)
	}
	c := got.candidate("streak=3")
	if c.Detected != 1 || *c.FailuresInLog < 3 || *c.FailuresInLog > 6 || *c.DetectInLog < 20 || *c.DetectInLog > 60 || c.Calls != 3 || math.Abs(*c.Detect-30) > 1 {
		t.Errorf("streak=3 saw the outage after %v s and %v calls, want 20 and 3; by formula %v and %d, want 30 and 3", *c.DetectInLog, *c.FailuresInLog, *c.Detect, c.Calls)
	}
}

func TestTuneReplayAgreesWithTheFormula(t *testing.T) {
	got := tune(t, recorded(30_000, 0, time.Second, 0.08), monthlyTarget)[0]
	for _, trip := range []string{"streak=2", "streak=3", "count=4,of=8,within=1m"} {
		c := got.candidate(trip)
		if c.FalseOpens < 10 || math.Abs(*c.Replayed / *c.Formula - 1) > 0.5 {
			t.Errorf("%s: %v false opens a month by replay (%d seen), %v by formula", trip, *c.Replayed, c.FalseOpens, *c.Formula)
		}
	}
}

func TestTuneFindsTheSmallestThreshold(t *testing.T) {
	got := tune(t, recorded(30_000, 0, 10*time.Second, 0.01), monthlyTarget)[0]
	// 0.1 calls a second and 1 %: a streak of 3 opens in 30 days 0.26 times;
	// of 2k and a window of a minute need 4.
	if want := "[streak=3 count=4,of=8,within=1m count=4,within=1m]"; fmt.Sprint(got.Smallest) != want {
		t.Errorf("got %v, want %s", got.Smallest, want)
	}
	strict := monthlyTarget
	strict.Target.Opens = 0.01
	if got := tune(t, recorded(30_000, 0, 10*time.Second, 0.01), strict)[0].Smallest[0]; got != "streak=4" {
		t.Errorf("one in 100 months: got %s, want streak=4", got)
	}
}

func TestTuneKnowsRulesThatSeeNothing(t *testing.T) {
	got := tune(t, recorded(10_000, 100, 10*time.Second, 0.01), monthlyTarget)[0]
	// Seven calls fall into a minute, eight do not.
	if c := got.candidate("count=7,within=1m"); !c.Meets || c.Detect == nil || c.Detected != 1 {
		t.Errorf("7 within a minute: got %+v", c)
	}
	if c := got.candidate("count=8,of=16,within=1m"); c.Meets || c.Detect != nil || c.Detected != 0 {
		t.Errorf("8 of 16 within a minute, at six calls a minute: got %+v", c)
	}
	if c := got.candidate("streak=20"); !c.Meets || c.Detect == nil {
		t.Errorf("a streak has no window: got %+v", c)
	}
}

func TestTuneSaysWhenTheDataAreTooFew(t *testing.T) {
	for _, test := range []struct {
		name, log string
		says      []string
	}{
		{"a minute of it", recorded(60, 0, time.Second, 0.01),
			[]string{"failures in 60 calls", "days of normal operation", "no incident in the log"}},
		{"nothing", "", []string{"no time of normal operation"}},
		{"failures that come in pairs", paired(), []string{"clusters"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := tune(t, test.log, monthlyTarget)[0]
			for _, want := range test.says {
				if !strings.Contains(strings.Join(got.TooFew, "\n"), want) {
					t.Errorf("want %q among %q", want, got.TooFew)
				}
			}
		})
	}
	enough := tune(t, recorded(30_000, 200, 10*time.Minute, 0.02), monthlyTarget)[0]
	if len(enough.TooFew) > 0 {
		t.Errorf("half a year with an incident: got %q", enough.TooFew)
	}
}

// paired is a log in which each failure has a second one right after it.
func paired() string {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b []byte
	for i := range 20_000 {
		e := fusebox.Event{At: start.Add(time.Duration(i) * time.Minute), Circuit: "model/a"}
		if i%200 < 2 {
			e.Outcome = fusebox.Failure
		}
		b = append(e.AppendJSON(b), '\n')
	}
	return string(b)
}

func TestTuneComparesAGivenRule(t *testing.T) {
	o := monthlyTarget
	o.Trips = []fusebox.Trip{fusebox.Rate(0.5, time.Minute, 5)}
	got := tune(t, recorded(10_000, 200, 5*time.Second, 0.01), o)[0]
	c := got.Candidates[len(got.Candidates)-1]
	if c.Trip != "rate=0.5,within=1m,calls=5" || c.Formula != nil || c.Detected != 1 || *c.DetectInLog < 20 {
		t.Errorf("got %+v, want the outage seen after half a window, and no formula", c)
	}
}

func TestTunePlotIsAPicture(t *testing.T) {
	for name, log := range map[string]string{"a log": recorded(20_000, 100, time.Second, 0.05), "nothing": ""} {
		got := tune(t, strings.ReplaceAll(log, "model/a", "model/a<b>"), monthlyTarget)[0]
		var b bytes.Buffer
		if err := got.Plot(&b, monthlyTarget.Target); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: a number that is none in\n%s", name, &b)
		}
		panels := 0
		for d := xml.NewDecoder(&b); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
				panels++
			}
		}
		if panels != 6 {
			t.Errorf("%s: %d curves, want two for each of three families", name, panels)
		}
	}
}
