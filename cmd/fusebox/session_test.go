package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// statusOf asks `fusebox status` for one circuit.
func (p *place) statusOf(circuit string) map[string]any {
	p.t.Helper()
	var report struct {
		Circuits []map[string]any `json:"circuits"`
	}
	p.must("status", "--json", circuit).decode(p.t, &report)
	if len(report.Circuits) != 1 {
		p.t.Fatalf("%d circuits, want one", len(report.Circuits))
	}
	return report.Circuits[0]
}

func TestRunKeepsTheExitCodeAndOpensTheCircuit(t *testing.T) {
	p := newPlace(t)
	policy := []string{"run", "--circuit", "Session/A", "--trip", "count=3,within=60m", "--cooldown", "1h", "--jitter", "0", "--"}
	for range 3 {
		if r := p.run(append(policy, "sh", "-c", "echo out; echo err >&2; exit 7")...); r.code != 7 || r.stdout != "out\n" || !strings.HasPrefix(r.stderr, "err\n") {
			t.Fatalf("%+v", r)
		}
	}
	r := p.run("run", "--circuit", "session/a", "--", "sh", "-c", "echo started")
	if r.code != exitDenied || r.stdout != "" || !strings.Contains(r.stderr, "session/a is unavailable for another 3600 s") {
		t.Errorf("%+v", r)
	}
	r = p.run("run", "--json", "--circuit", "session/a", "--", "true")
	var denied struct {
		Denied struct {
			Circuit, Reason, Instruction string
			RetryAfter                   float64 `json:"retry_after_s"`
			Failures                     int
		}
	}
	if err := json.Unmarshal([]byte(r.stderr), &denied); err != nil || r.code != exitDenied {
		t.Fatalf("%v, %+v", err, r)
	}
	if d := denied.Denied; d.Circuit != "session/a" || d.Reason != "open" || d.Failures != 3 || d.RetryAfter < 3590 || d.RetryAfter > 3600 || d.Instruction == "" {
		t.Errorf("%+v", d)
	}
	if s := p.statusOf("session/a"); s["phase"] != "open" || s["health"] != "down" || s["version"] != 1.0 || s["failures"] != 3.0 || s["denied"] != 2.0 {
		t.Errorf("%v", s)
	}
}

func TestSlowFailuresOfASessionDoNotCount(t *testing.T) {
	p := newPlace(t)
	for range 4 {
		if r := p.run("run", "--circuit", "session/a", "--trip", "streak=2", "--faster-than", "1ms", "--", "sh", "-c", "sleep 0.01; exit 1"); r.code != 1 {
			t.Fatalf("%+v", r)
		}
	}
	if s := p.statusOf("session/a"); s["phase"] != "closed" || s["failures"] != 0.0 || s["health"] != "up" {
		t.Errorf("%v", s)
	}
}

func TestRunTakesFlagsOfItsCommandAsTheyAre(t *testing.T) {
	p := newPlace(t)
	if r := p.run("run", "--circuit", "session/a", "echo", "--json", "-v", "--circuit", "x"); r.code != 0 || r.stdout != "--json -v --circuit x\n" {
		t.Errorf("%+v", r)
	}
	if r := p.run("run", "--", "true"); r.code != exitUsage || !strings.Contains(r.stderr, "circuit") {
		t.Errorf("%+v", r)
	}
	if r := p.run("run", "--circuit", "session/a", "--limit-pattern", "(", "--", "true"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}

func TestUsageLimitThrottlesUntilItsTime(t *testing.T) {
	p := newPlace(t)
	r := p.run("run", "--circuit", "session/a", "--limit-pattern", "default", "--", "sh", "-c", "echo 'usage limit reached, resets in 2 hours'; exit 1")
	if r.code != 1 || r.stdout != "usage limit reached, resets in 2 hours\n" {
		t.Fatalf("%+v", r)
	}
	s := p.statusOf("session/a")
	until, err := time.Parse(time.RFC3339, fmt.Sprint(s["throttled_until"]))
	if left := time.Until(until); err != nil || left < 119*time.Minute || left > 2*time.Hour || s["phase"] != "closed" {
		t.Errorf("%v, %v", s, err)
	}
	if r := p.run("run", "--circuit", "session/a", "--", "true"); r.code != exitDenied {
		t.Errorf("%+v", r)
	}
	if r := p.run("pick", "session/a", "session/b"); r.stdout != "session/b\n" {
		t.Errorf("%+v", r)
	}
}

func TestPickPrintsTheNameAlone(t *testing.T) {
	p := newPlace(t)
	p.must("trip", "session/a")
	if r := p.must("pick", "session/a", "session/b", "session/c"); r.stdout != "session/b\n" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	if r := p.must("pick", "-v", "session/a", "session/b"); r.stdout != "session/b\n" || !strings.HasPrefix(r.stderr, "session/a: ") {
		t.Errorf("%+v", r)
	}
	if r := p.run("pick", "session/a"); r.code != exitDenied || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	var picked struct {
		Picked  string
		Skipped []struct {
			Name   string
			Denied struct{ Reason string }
		}
	}
	p.must("pick", "--json", "session/a", "session/b").decode(t, &picked)
	if picked.Picked != "session/b" || len(picked.Skipped) != 1 || picked.Skipped[0].Denied.Reason != "open" {
		t.Errorf("%+v", picked)
	}
	if r := p.run("pick", "session/a", "session/b", "--", "sh", "-c", "echo with {}; exit 4"); r.code != 4 || r.stdout != "with session/b\n" {
		t.Errorf("%+v", r)
	}
	if s := p.statusOf("session/b"); s["last_error"] != "exit status 4" {
		t.Errorf("the picked run was not reported: %v", s)
	}
}

func TestPickPrefersWhatIsKnownToBeUp(t *testing.T) {
	p := newPlace(t)
	p.must("record", "--circuit", "session/b", "--outcome", "success")
	if r := p.must("pick", "session/a", "session/b"); r.stdout != "session/a\n" {
		t.Errorf("unknown is usable: %+v", r)
	}
	if r := p.must("pick", "--prefer-healthy", "session/a", "session/b"); r.stdout != "session/b\n" {
		t.Errorf("%+v", r)
	}
}

// A harness picks, runs what it picked itself, and records: three programs, one
// probe.
func TestRecordSettlesTheProbeThatPickTook(t *testing.T) {
	p := newPlace(t)
	past := time.Now().Add(-2 * time.Minute).UTC()
	for i := range 2 {
		p.must("record", "--circuit", "session/a", "--outcome", "failure", "--at", past.Add(time.Duration(i)*time.Second).Format(time.RFC3339),
			"--trip", "streak=2", "--cooldown", "1m", "--jitter", "0")
	}
	if s := p.statusOf("session/a"); s["phase"] != "open" || s["retry_after_s"] != 0.0 {
		t.Fatalf("it stays open until somebody asks: %v", s)
	}
	if r := p.must("pick", "--peek", "session/a"); r.stdout != "session/a\n" {
		t.Fatalf("%+v", r)
	}
	p.must("pick", "session/a")
	if s := p.statusOf("session/a"); s["phase"] != "half-open" {
		t.Fatalf("%v", s)
	}
	if r := p.run("pick", "session/a"); r.code != exitDenied {
		t.Errorf("a second probe: %+v", r)
	}
	p.must("record", "--circuit", "session/a", "--outcome", "success")
	if s := p.statusOf("session/a"); s["phase"] != "closed" || s["version"] != 3.0 {
		t.Errorf("%v", s)
	}
}

func TestRecordRefusesWhatItCannotRecord(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{
		{"--outcome", "failure"},
		{"--circuit", "a/b"},
		{"--circuit", "a/b", "--outcome", "broken"},
		{"--circuit", "a/b", "--outcome", "failure", "--class", "bad"},
		{"--circuit", "a/b", "--outcome", "success", "--class", "crash"},
		{"--circuit", "a/b", "--outcome", "failure", "--at", "yesterday"},
		{"--circuit", "a/b", "--outcome", "failure", "--ms", "-1"},
		{"--circuit", "a/b", "--outcome", "failure", "--until", "2030-01-01T00:00:00Z"},
		{"--circuit", "a/b", "--grade", "1"},
		{"--circuit", "a/b", "--grade", "1", "--floor", "2", "--outcome", "success"},
		{"--circuit", "a/b", "--outcome", "failure", "--trip", "streak=0"},
		{"--circuit", "a/b", "--outcome", "failure", "--stdin"},
	} {
		if r := p.run(append([]string{"record"}, args...)...); r.code != exitUsage || r.stdout != "" || r.stderr == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestRecordReadsLinesAndKeepsTheGoodOnes(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(t.Context(), "record", "--stdin", "--json", "--circuit", "session/a", "--trip", "count=3,within=60m")
	cmd.Stdin = strings.NewReader(`{"at":"2026-11-29T12:01:00Z","outcome":"failure","class":"crash","ms":5000}
{"at":"2026-11-29T12:03:00Z","outcome":"failure","class":"crash","ms":7000}
not json
{"at":"2026-11-29T12:05:00Z","circuit":"session/b","outcome":"success"}
{"at":"2026-11-29T12:06:00Z","outcome":"perhaps"}
{"at":"2026-11-29T12:07:00Z","kind":"reset"}

{"at":"2026-11-29T12:09:00Z","outcome":"failure","class":"crash","ms":6000}`)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("lines were lost in silence: %v", err)
	}
	for _, want := range []string{"line 3", "line 5", "line 6"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s is not told of:\n%s", want, &stderr)
		}
	}
	if n := strings.Count(stdout.String(), "\n"); n != 2 {
		t.Errorf("%d states, want one a circuit:\n%s", n, &stdout)
	}
	if s := p.statusOf("session/a"); s["phase"] != "open" || s["failures"] != 3.0 {
		t.Errorf("%v", s)
	}
}

func TestGradesAtTheFloorAreAPlateau(t *testing.T) {
	p := newPlace(t)
	grade := func(g string) {
		p.must("record", "--circuit", "arm/a", "--grade", g, "--floor", "0.3", "--trip", "streak=3", "--cooldown", "24h")
	}
	for _, g := range []string{"0.3", "0.1", "0.7", "0.2", "0.2"} {
		grade(g)
	}
	if s := p.statusOf("arm/a"); s["phase"] != "closed" || s["failures"] != 2.0 {
		t.Errorf("one grade above the floor is counter-evidence: %v", s)
	}
	grade("0.3")
	if s := p.statusOf("arm/a"); s["phase"] != "open" {
		t.Errorf("%v", s)
	}
}

// A guard that was killed leaves a start without an end: doctor says so.
func TestKilledGuardIsSeenAsUnreported(t *testing.T) {
	p := newPlace(t)
	cmd := p.command(t.Context(), "run", "--circuit", "session/a", "--", "sh", "-c", "echo ready; exec sleep 60")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	child := childOf(t, cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	endProcess(child)
	var report struct {
		Circuits []struct {
			Circuit    string
			Unreported int
		}
	}
	p.must("doctor", "--json").decode(t, &report)
	for _, c := range report.Circuits {
		if c.Circuit == "session/a" && c.Unreported == 1 {
			return
		}
	}
	t.Errorf("the start without an end is not seen: %+v", report)
}

// childOf returns the pid of the process's only child.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var child int
		if b, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(b), &child); err == nil {
				return child
			}
		}
	}
	return 0
}

// endProcess ends what a killed guard left behind.
func endProcess(pid int) {
	if pid == 0 {
		return
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
