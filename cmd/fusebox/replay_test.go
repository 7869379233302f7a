package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// morning is the story of the interleaved sessions, as a log.
const morning = `{"at":"2026-11-29T12:01:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":5000}
{"at":"2026-11-29T12:03:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":7000}
{"at":"2026-11-29T12:05:00Z","circuit":"session/a","outcome":"success","ms":1080000}
{"at":"2026-11-29T12:09:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":6000}
{"at":"2026-11-29T12:14:00Z","circuit":"session/a","outcome":"success","ms":660000}
{"at":"2026-11-29T12:18:00Z","circuit":"session/a","outcome":"failure","class":"crash","ms":4000}
`

const morningReplayed = `{"at":"2026-11-29T12:09:00Z","circuit":"session/a","from":"closed","to":"open","version":1,"failures":3}
{"summary":{"circuit":"session/a","calls":6,"admitted":5,"denied":1,"failures_seen":3,"failures_spared":1,"successes_denied":0,"opened":1,"probes":0,"probes_failed":0,"malformed":0}}
`

func TestReplayPrintsTheContractsLines(t *testing.T) {
	p := newPlace(t)
	file := p.write("morning.jsonl", morning)
	got := p.must("replay", "--json", "--trip", "count=3,within=60m", "--cooldown", "1h", file)
	if got.stdout != morningReplayed || got.stderr != "" {
		t.Errorf("a file: got\n%s%s", got.stdout, got.stderr)
	}

	cmd := p.command(t.Context(), "replay", "-", "--json", "--trip=count=3,within=60m", "--cooldown=1h")
	cmd.Stdin = strings.NewReader(morning)
	out, err := cmd.Output()
	if err != nil || string(out) != morningReplayed {
		t.Errorf("standard input: got\n%s%v", out, err)
	}

	first := p.write("first.jsonl", strings.Join(strings.SplitAfter(morning, "\n")[:3], ""))
	rest := p.write("rest.jsonl", strings.Join(strings.SplitAfter(morning, "\n")[3:], ""))
	got = p.must("replay", "--json", "--trip", "count=3,within=60m", "--cooldown", "1h", rest, first)
	if got.stdout != morningReplayed {
		t.Errorf("two files, in any order: got\n%s", got.stdout)
	}

	got = p.must("replay", "--json", "--trip", "streak=3", "--cooldown", "1h", file)
	if strings.Contains(got.stdout, `"to":"open"`) || !strings.Contains(got.stdout, `"opened":0`) {
		t.Errorf("under a streak nothing ever opens: got\n%s", got.stdout)
	}
}

func TestReplayForPeople(t *testing.T) {
	p := newPlace(t)
	file := p.write("morning.jsonl", morning+"junk\n")
	got := p.must("replay", "--trip", "count=3,within=60m", "--cooldown", "1h", file).stdout
	for _, want := range []string{
		"2026-11-29T12:09:00Z  session/a  closed → open  (3 counted: 3 failures within 1h)",
		"CIRCUIT", "session/a", "malformed lines, skipped: 1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

func TestReplayCircuitFlag(t *testing.T) {
	p := newPlace(t)
	nameless := p.write("nameless.jsonl", strings.ReplaceAll(morning, `"circuit":"session/a",`, ""))
	got := p.must("replay", "--json", "--trip", "count=3,within=60m", "--cooldown", "1h", "--circuit", "Session/A", nameless)
	if got.stdout != morningReplayed {
		t.Errorf("it names what has no name: got\n%s", got.stdout)
	}
	two := p.write("two.jsonl", morning+strings.ReplaceAll(morning, "session/a", "session/b"))
	got = p.must("replay", "--json", "--trip", "count=3,within=60m", "--cooldown", "1h", "--circuit", "session/a", two)
	if got.stdout != morningReplayed {
		t.Errorf("it leaves out the others: got\n%s", got.stdout)
	}
}

func TestReplayReadsAConfigurationOnlyIfTold(t *testing.T) {
	p := newPlace(t)
	file := p.write("morning.jsonl", morning)
	p.write("fusebox.yaml", "circuits:\n  session/a: {trip: [{count: 3, within: 60m}], faster_than: 1h, cooldown: {after: 1h, jitter: 0}}\n")
	got := p.must("replay", "--json", file)
	if !strings.Contains(got.stdout, `"opened":0`) || !strings.Contains(got.stderr, "no --trip") {
		t.Errorf("not told: got\n%s%s", got.stdout, got.stderr)
	}
	got = p.must("replay", "--json", "--config", "fusebox.yaml", file)
	if got.stdout != morningReplayed || got.stderr != "" {
		t.Errorf("told: got\n%s%s", got.stdout, got.stderr)
	}
	got = p.must("replay", "--json", "--config", "fusebox.yaml", "--trip", "streak=3", file)
	if !strings.Contains(got.stdout, `"opened":0`) {
		t.Errorf("flags go on top: got\n%s", got.stdout)
	}
}

func TestReplayWarnsOfWhatTheBarePolicyLacks(t *testing.T) {
	p := newPlace(t)
	file := p.write("morning.jsonl", morning)
	for flags, want := range map[string]string{
		"":                                   "no --trip",
		"--trip streak=3":                    "no --cooldown",
		"--trip streak=3 --cooldown 0s":      "",
		"--cooldown-calls 2":                 "no --trip",
		"--trip streak=3 --cooldown-calls 0": "gets no rest",
	} {
		got := p.must(append([]string{"replay", file}, strings.Fields(flags)...)...).stderr
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: want %q, got %q", flags, want, got)
		}
	}
}

func TestReplayMistakes(t *testing.T) {
	p := newPlace(t)
	file := p.write("morning.jsonl", morning)
	tests := []struct {
		name string
		args []string
		want int
		says string
	}{
		{"no file", []string{"replay"}, exitUsage, "want fusebox replay [policy flags] FILE…, have 0 arguments"},
		{"a file that is not there", []string{"replay", "missing.jsonl"}, exitFailed, "missing.jsonl"},
		{"a directory", []string{"replay", filepath.Dir(file)}, exitFailed, "directory"},
		{"a rule that is none", []string{"replay", "--trip", "sometimes", file}, exitUsage, "--trip"},
		{"a threshold below 1", []string{"replay", "--trip", "streak=0", file}, exitUsage, "--trip"},
		{"a name that is refused", []string{"replay", "--circuit", "../x", file}, exitUsage, `".."`},
		{"a broken configuration", []string{"replay", "--config", p.write("bad.yaml", "circuits: 7\n"), file}, exitConfig, "bad.yaml:1"},
		{"an outage of less than nothing", []string{"simulate", "outage", "--outage-calls", "-1"}, exitUsage, "--outage-calls"},
		{"no replicas", []string{"simulate", "fleet", "--replicas", "0"}, exitUsage, "--replicas"},
		{"no calls", []string{"simulate", "fleet", "--rate", "0"}, exitUsage, "--rate"},
		{"a rate that is no number", []string{"simulate", "fleet", "--rate", "NaN"}, exitUsage, "--rate"},
		{"no outage", []string{"simulate", "fleet", "--outage", "0s"}, exitUsage, "--outage"},
		{"a configuration without a circuit", []string{"simulate", "fleet", "--config", p.write("good.yaml", "circuits: {}\n")}, exitUsage, "--circuit"},
		{"a circuit without a configuration", []string{"simulate", "outage", "--circuit", "model/a"}, exitUsage, "--config"},
		{"an unknown simulation", []string{"simulate", "weather"}, exitUsage, "weather"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := p.run(tt.args...)
			if r.code != tt.want || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("want exit code %d and %q, have %d and\n%s", tt.want, tt.says, r.code, r.stderr)
			}
		})
	}
}

func TestSimulateOutagePrintsTheContractsLines(t *testing.T) {
	p := newPlace(t)
	flags := []string{"simulate", "outage", "--outage-calls", "15", "--runs", "13", "--max-retries", "3", "--trip", "streak=3", "--cooldown-calls", "2"}
	got := p.must(append(flags, "--json")...)
	if got.stderr != "" {
		t.Errorf("got a warning: %s", got.stderr)
	}
	lines := strings.Split(got.stdout, "\n")
	for i, want := range map[int]string{
		2:  `{"run":3,"before":"closed","after":"open","calls":3,"outcome":"failed"}`,
		3:  `{"run":4,"before":"open","after":"open","calls":0,"outcome":"denied"}`,
		5:  `{"run":6,"before":"open","after":"open","calls":3,"outcome":"failed","probe":true}`,
		11: `{"run":12,"before":"open","after":"closed","calls":1,"outcome":"ok","probe":true}`,
		13: `{"summary":{"runs":13,"calls":17,"denied":6,"ok":2,"failed":5,"probes":3,"probes_failed":2}}`,
	} {
		if len(lines) != 15 || lines[i] != want {
			t.Fatalf("line %d: want %s, got\n%s", i, want, got.stdout)
		}
	}
	if bare := p.must("simulate", "outage", "--json"); bare.stdout != got.stdout {
		t.Errorf("these are the defaults, got\n%s", bare.stdout)
	}
	if people := p.must(flags...).stdout; !strings.Contains(people, "17 calls in 13 runs") || !strings.Contains(people, "without a circuit: 23 calls") {
		t.Errorf("for people: got\n%s", people)
	}
	warned := p.must("simulate", "outage", "--cooldown-calls", "0", "--json")
	if !strings.Contains(warned.stderr, "--cooldown-calls 0") || !strings.Contains(warned.stdout, `"denied":0`) {
		t.Errorf("without a cooldown: got\n%s%s", warned.stdout, warned.stderr)
	}
	if got := p.must("simulate", "outage", "--no-circuit", "--json").stdout; !strings.Contains(got, `"calls":23,"denied":0`) {
		t.Errorf("without a circuit: got\n%s", got)
	}
}

func TestSimulateFleetPrintsOneSummary(t *testing.T) {
	p := newPlace(t)
	var local, shared struct {
		Summary struct {
			CallsDown  int      `json:"calls_down"`
			BeforeOpen int      `json:"calls_down_before_open"`
			Probes     int      `json:"probes"`
			Peak       int      `json:"probes_peak_1s"`
			Detect     *float64 `json:"detect_s"`
			Recover    *float64 `json:"recover_s"`
		} `json:"summary"`
	}
	flags := []string{"simulate", "fleet", "--replicas", "10", "--rate", "1", "--outage", "600s", "--latency", "200ms",
		"--trip", "streak=3", "--cooldown", "120s", "--jitter", "0.2", "--seed", "1", "--json"}
	first := p.must(flags...)
	first.decode(t, &local)
	if again := p.must(flags...); again.stdout != first.stdout {
		t.Errorf("the same seed: got\n%s%s", first.stdout, again.stdout)
	}
	p.must(append(flags, "--shared", "--propagation", "5ms")...).decode(t, &shared)
	if n := local.Summary.BeforeOpen; n < 30 || n > 40 {
		t.Errorf("ten local circuits: %d calls before the last had opened, want ten times 3 and what was in flight", n)
	}
	if n := shared.Summary.BeforeOpen; n < 3 || n > 10 {
		t.Errorf("one shared circuit: %d calls before it opened, want 3 and what was in flight", n)
	}
	if s := local.Summary; s.Detect == nil || s.Recover == nil || s.Probes == 0 || s.Peak == 0 || s.CallsDown < s.BeforeOpen {
		t.Errorf("got %s", first.stdout)
	}
	if got := p.must(flags[:len(flags)-1]...).stdout; !strings.Contains(got, "10 replicas") || bytes.ContainsRune([]byte(got), '{') {
		t.Errorf("for people: got\n%s", got)
	}
}
