package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dayLog is a day with a call every ten seconds, of which each 200th fails, and
// an outage of ten minutes at noon.
func dayLog() string {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b strings.Builder
	for i := range 8640 {
		outcome := "success"
		if i%200 == 7 || i >= 4320 && i < 4380 {
			outcome = "failure"
		}
		fmt.Fprintf(&b, `{"at":%q,"circuit":"model/a","outcome":%q,"ms":200}`+"\n", start.Add(time.Duration(i)*10*time.Second).Format(time.RFC3339), outcome)
	}
	return b.String()
}

func TestTune(t *testing.T) {
	p := newPlace(t)
	file := p.write("day.jsonl", dayLog()+"junk\n")
	var got struct {
		Circuit   string
		Incidents []struct{ Failures int }
		Normal    struct {
			Longest int `json:"longest_streak"`
		}
		Candidates []map[string]any
		Smallest   []string
		TooFew     []string `json:"too_few"`
	}
	r := p.must("tune", "--json", "--target", "1 per 30d", "--plot", "out.svg", "--trip", "rate=0.5,within=60s,calls=5", file)
	r.decode(t, &got)
	if got.Circuit != "model/a" || len(got.Incidents) != 1 || got.Incidents[0].Failures != 60 || got.Normal.Longest != 1 {
		t.Errorf("want the incident set apart, got %+v", got)
	}
	if len(got.Smallest) != 3 || got.Smallest[0] != "streak=3" || len(got.TooFew) != 1 || !strings.Contains(got.TooFew[0], "days of normal operation") {
		t.Errorf("want the smallest thresholds and a word on a single day, got %v and %q", got.Smallest, got.TooFew)
	}
	last := got.Candidates[len(got.Candidates)-1]
	if last["trip"] != "rate=0.5,within=1m,calls=5" || last["false_opens_30d"] != nil || last["incidents_detected"] != 1.0 {
		t.Errorf("want the given rule compared, got %v", last)
	}
	if !strings.Contains(r.stderr, "skipped: 1") {
		t.Errorf("want the malformed line counted, got %q", r.stderr)
	}
	svg, err := os.ReadFile(filepath.Join(p.dir, "out.svg"))
	if err != nil || !strings.HasPrefix(string(svg), "<svg ") {
		t.Errorf("want a picture, got %.40q, %v", svg, err)
	}

	people := p.must("tune", file).stdout
	for _, want := range []string{"1 incident\n", "60 of 60 failed", "smallest with at most 1 false opens per 30d: streak=3", "too few data: "} {
		if !strings.Contains(people, want) {
			t.Errorf("want %q in\n%s", want, people)
		}
	}
	if json.Valid([]byte(people)) {
		t.Error("JSON without --json")
	}
}

func TestTuneMistakes(t *testing.T) {
	p := newPlace(t)
	two := p.write("two.jsonl", `{"at":"2026-01-01T00:00:00Z","circuit":"a","outcome":"success"}
{"at":"2026-01-01T00:00:00Z","circuit":"b","outcome":"success"}
`)
	tests := []struct {
		name string
		args []string
		want int
		says string
	}{
		{"no file", []string{"tune"}, exitUsage, "want fusebox tune [policy flags] FILE…, have 0 arguments"},
		{"a target without a time", []string{"tune", "--target", "1", two}, exitUsage, "--target"},
		{"a target of nothing", []string{"tune", "--target", "0 per 30d", two}, exitUsage, "--target"},
		{"a target of no number", []string{"tune", "--target", "NaN per 30d", two}, exitUsage, "--target"},
		{"no window", []string{"tune", "--within", "0s", two}, exitUsage, "--within"},
		{"a picture of two circuits", []string{"tune", "--plot", "x.svg", two}, exitUsage, "--circuit"},
		{"a picture where none can be", []string{"tune", "--circuit", "a", "--plot", "missing/x.svg", two}, exitFailed, "missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if r := p.run(tt.args...); r.code != tt.want || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("want exit code %d and %q, have %d and\n%s", tt.want, tt.says, r.code, r.stderr)
			}
		})
	}
}

func TestParseTarget(t *testing.T) {
	for text, monthly := range map[string]time.Duration{"1 per 30d": 30 * 24 * time.Hour, "1 per 12h": 12 * time.Hour, "1 per 0.5d": 12 * time.Hour} {
		if got, err := parseTarget(text); err != nil || got.Opens != 1 || got.Per != monthly {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

// A log in which every call failed was said to fail "1e+02 %".
func TestTuneWritesPercentAsPeopleDo(t *testing.T) {
	p := newPlace(t)
	file := p.write("down.jsonl", `{"at":"2026-01-01T00:00:00Z","circuit":"session/a","outcome":"failure"}
{"at":"2026-01-01T00:01:00Z","circuit":"session/a","outcome":"failure"}
{"at":"2026-01-01T00:02:00Z","circuit":"session/a","outcome":"failure"}
`)
	if r := p.must("tune", file); !strings.Contains(r.stdout, " 3 of 3 failed: 100 % (") {
		t.Errorf("want 100 %%, have\n%s", r.stdout)
	}
}
