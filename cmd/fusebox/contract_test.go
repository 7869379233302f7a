package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The keys that other programs rely on.
var statusKeys = []string{"checked_at", "circuit", "denied", "failures", "health", "held", "last_error", "latency_ms", "local",
	"phase", "reason", "retry_after_s", "since", "throttled_until", "version"}

func TestStatusJSON(t *testing.T) {
	p := newPlace(t)
	p.must("trip", "session/a", "--reason", "a test")
	r := p.must("status", "--json", "session/a", "Session//Unseen")
	var got struct {
		Circuits []map[string]any `json:"circuits"`
		Runs     []any            `json:"runs"`
	}
	r.decode(t, &got)
	if len(got.Circuits) != 2 || got.Runs == nil || strings.Count(r.stdout, "\n") != 1 {
		t.Fatalf("want two circuits and a list of runs on one line, have %s", r.stdout)
	}
	for _, c := range got.Circuits {
		for _, key := range statusKeys {
			if _, found := c[key]; !found {
				t.Errorf("%v lacks %s", c["circuit"], key)
			}
		}
	}
	a, unseen := got.Circuits[0], got.Circuits[1]
	if a["phase"] != "open" || a["health"] != "down" || a["version"] != 1.0 || a["held"] != nil || a["reason"] != "operator: a test" {
		t.Errorf("session/a: %v", a)
	}
	if after := a["retry_after_s"].(float64); after < 3500 || after > 3961 {
		t.Errorf("want an hour's cooldown, have %v s", after)
	}
	if unseen["circuit"] != "session/unseen" || unseen["health"] != "unknown" || unseen["phase"] != "closed" || unseen["checked_at"] != nil {
		t.Errorf("a circuit that nobody has seen: %v", unseen)
	}
	if all := p.status(); len(all.Circuits) != 1 {
		t.Errorf("asking for a circuit made it: %+v", all)
	}
}

func TestStatusListsRunsApart(t *testing.T) {
	p := newPlace(t)
	p.must("trip", "run/job-7")
	var got struct {
		Circuits []circuit
		Runs     []map[string]any
	}
	p.must("status", "--json").decode(t, &got)
	if len(got.Circuits) != 0 || len(got.Runs) != 1 {
		t.Fatalf("want one run and no circuit, have %+v", got)
	}
	run := got.Runs[0]
	if keys := slices.Sorted(maps.Keys(run)); !slices.Equal(keys, []string{"denied", "outcome", "run", "since", "stuck"}) {
		t.Errorf("keys: %v", keys)
	}
	if run["run"] != "job-7" || run["stuck"] != true {
		t.Errorf("want job-7 stuck, have %v", run)
	}
	p.must("reset", "--run", "job-7")
	p.must("status", "--json").decode(t, &got)
	if got.Runs[0]["stuck"] != false {
		t.Errorf("reset --run lets it go on, have %v", got.Runs[0])
	}
}

// A run that an operator stopped was let go after the cooldown of some kind of
// circuit, not when runs are let go.
func TestATrippedRunIsStoppedForAsLongAsAnyOther(t *testing.T) {
	for text, want := range map[string]float64{"": 600, "thrash: {forget: 2h}\n": 7200} {
		p := newPlace(t)
		p.write("fusebox.yaml", text)
		var s circuit
		p.must("trip", "run/job-7", "--json").decode(t, &s)
		if s.Phase != "open" || s.RetryAfter > want || s.RetryAfter < want-60 {
			t.Errorf("%q: %s for %v s, want %v", text, s.Phase, s.RetryAfter, want)
		}
	}
}

func TestOperatorJSONIsAStatusObject(t *testing.T) {
	p := newPlace(t)
	var c circuit
	p.must("hold", "open", "model/a/m", "--for", "1h", "--json").decode(t, &c)
	if c.Circuit != "model/a/m" || c.Held == nil || *c.Held != "open" || c.Phase != "open" {
		t.Errorf("%+v", c)
	}
	p.must("hold", "model/a/m", "closed", "--json").decode(t, &c)
	if c.Held == nil || *c.Held != "closed" {
		t.Errorf("the word may stand last: %+v", c)
	}
}

func TestOperatorUsage(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	tests := map[string][]string{
		"neither open nor closed":       {"hold", "model/a/m"},
		"a time that is over":           {"hold", "open", "a/b", "--until", "2020-01-01T00:00:00Z"},
		"for and until":                 {"hold", "open", "a/b", "--for", "1h", "--until", "23:59"},
		"a negative time":               {"hold", "open", "a/b", "--for", "-1h"},
		"lifting for a time":            {"hold", "--lift", "a/b", "--for", "1h"},
		"a throttle without an end":     {"throttle", "a/b"},
		"a throttle lifted for a while": {"throttle", "--lift", "a/b", "--for", "1h"},
		"a reset of nothing":            {"reset"},
		"events since when":             {"events", "--since", "yesterday"},
	}
	for name, args := range tests {
		if r := p.run(args...); r.code != exitUsage || r.stderr == "" {
			t.Errorf("%s: want exit code 64 and words, have %d and %q", name, r.code, r.stderr)
		}
	}
	if r := p.run("hold", "--lift", "a/b"); r.code != exitFailed || !strings.Contains(r.stderr, "not held") {
		t.Errorf("lifting nothing: exit code %d, %q", r.code, r.stderr)
	}
	if r := p.must("status", "--json"); strings.Contains(r.stdout, "a/b") {
		t.Errorf("a refused command left something behind: %s", r.stdout)
	}
}

// appendLog appends lines to a circuit's log, as any program may.
func (p *place) appendLog(circuit string, lines ...string) {
	p.t.Helper()
	if err := os.MkdirAll(p.storeDir(), 0o700); err != nil {
		p.t.Fatal(err)
	}
	path := filepath.Join(p.storeDir(), strings.ReplaceAll(circuit, "/", "+")+".jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

func TestWhyJSON(t *testing.T) {
	p := newPlace(t)
	now := time.Now().UTC()
	var lines []string
	for i, outcome := range sixSessions[:4] {
		lines = append(lines, fmt.Sprintf(`{"at":%q,"outcome":%q,"ms":5000,"worker":"w%d"}`, now.Add(time.Duration(i-10)*time.Minute).Format(time.RFC3339), outcome, i))
	}
	p.appendLog("session/a", append(lines, "no record")...)
	var got struct {
		Status    circuit
		Policy    []string
		Malformed int
		Records   []struct {
			Record  map[string]any
			Counted bool
			Effect  string
		}
	}
	p.must("why", "session/a", "--json").decode(t, &got)
	if got.Status.Phase != "open" || got.Malformed != 1 || len(got.Policy) == 0 || len(got.Records) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, r := range got.Records {
		if r.Counted != (sixSessions[i] == "failure") || r.Record["worker"] != fmt.Sprintf("w%d", i) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	if last := got.Records[3].Effect; !strings.HasPrefix(last, "closed → open: 3 failures within 1h") {
		t.Errorf("the last record opened it, have %q", last)
	}
}

func TestWhyOfAnUnknownCircuit(t *testing.T) {
	r := newPlace(t).must("why", "model/a/m")
	if !strings.Contains(r.stdout, "unknown") || !strings.Contains(r.stdout, "No evidence") {
		t.Errorf("%s", r.stdout)
	}
}

func TestEventsOverAllCircuitsInOrder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.must("trip", "a/x")
	p.must("hold", "open", "b/y", "--reason", "upgrade")
	p.must("throttle", "c/z", "--for", "1h")
	p.must("reset", "a/x")
	kinds := func(args ...string) []string {
		var got []string
		for line := range strings.Lines(p.must(append([]string{"events", "--json"}, args...)...).stdout) {
			var e struct{ Circuit, Kind, At string }
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.At == "" {
				t.Fatalf("%v: %s", err, line)
			}
			got = append(got, e.Circuit+" "+e.Kind)
		}
		return got
	}
	want := []string{"a/x trip", "a/x transition", "b/y hold", "b/y transition", "c/z throttle", "a/x reset", "a/x transition"}
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("want %v, have %v", want, got)
	}
	if got := kinds("c/z"); !slices.Equal(got, want[4:5]) {
		t.Errorf("of one circuit: %v", got)
	}
	if got := kinds("--since", "2030-01-01T00:00:00Z"); len(got) != 0 {
		t.Errorf("since a time to come: %v", got)
	}
}

func TestEventsFollow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.must("trip", "a/x")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := p.command(ctx, "events", "--follow", "--json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("want %s, have %q", want, lines.Text())
		}
	}
	next(`"kind":"trip"`)
	next(`"to":"open"`)
	p.must("reset", "a/x")
	next(`"kind":"reset"`)
	next(`"to":"closed"`)
	p.must("trip", "new/one")
	next(`"circuit":"new/one"`)
	next(`"to":"open"`)
	cmd.Process.Signal(os.Interrupt)
	if lines.Scan() {
		t.Errorf("something was told twice: %s", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

// events and why said "until" the very moment at which a circuit was held open.
func TestAHoldUntilLiftedNamesNoTime(t *testing.T) {
	p := newPlace(t)
	p.must("hold", "open", "model/a/m", "--reason", "an invoice")
	for _, command := range [][]string{{"events"}, {"why", "model/a/m"}} {
		r := p.must(command...)
		if !strings.Contains(r.stdout, "closed → open: held open: an invoice") || strings.Contains(r.stdout, "until 2") || strings.Contains(r.stdout, ", until") {
			t.Errorf("%s: want the hold, and no time at which it ends, have\n%s", command[0], r.stdout)
		}
	}
}
