package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/filestore"
)

// workVariable tells a process of this test binary to be one agent session:
// "DIRECTORY CONFIG CIRCUIT OUTCOME NUMBER".
const workVariable = "FUSEBOX_TEST_SESSION"

// reportSession is one session in a process of its own: it asks its circuit,
// and reports how it ended.
func reportSession(work string) int {
	var dir, file, circuit, outcome string
	var number int
	if _, err := fmt.Sscan(work, &dir, &file, &circuit, &outcome, &number); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	err := endSession(dir, file, circuit, outcome, number)
	if errors.Is(err, fusebox.ErrOpen) {
		return exitDenied
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func endSession(dir, file, circuit, outcome string, number int) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	store, err := filestore.Open(filestore.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer store.Close()
	box, err := fusebox.New(fusebox.Config{Policy: c.Policy, Store: store, Worker: fmt.Sprintf("worker-%d", number)})
	if err != nil {
		return err
	}
	guard, err := box.Circuit(circuit)
	if err != nil {
		return err
	}
	permit, err := guard.Allow(ctx)
	if err == nil {
		result := fusebox.Result{Outcome: fusebox.Success}
		if outcome == "failure" {
			result = fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Err: errors.New("exit status 1")}
		}
		permit.Done(result)
	}
	return errors.Join(err, box.Close(ctx))
}

// sixSessions is how the six sessions of the first story's morning ended.
var sixSessions = []string{"failure", "failure", "success", "failure", "success", "failure"}

// session runs one session as a process of its own and returns its exit code.
func (p *place) session(file, circuit, outcome string, number int) int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(p.env), fmt.Sprintf("%s=%s %s %s %s %d", workVariable, p.storeDir(), file, circuit, outcome, number))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Error(err)
	}
	if code := cmd.ProcessState.ExitCode(); code == 0 || code == exitDenied {
		return code
	}
	p.t.Errorf("a session could not report: %v\n%s", err, out)
	return 1
}

const (
	windowFile = "circuits: {session/*: {trip: [{count: 3, within: 60m}], faster_than: 60s, cooldown: {after: 1h}}}\n"
	streakFile = "circuits: {session/*: {trip: [{streak: 3}], faster_than: 60s, cooldown: {after: 1h}}}\n"
)

// Every success would reset a streak, so that it never opens; failures in a
// window open the circuit whatever ended in between.
func TestInterleavedMorning(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		phase      string
		failures   int
	}{
		{"failures in a window", windowFile, "open", 3},
		{"a streak", streakFile, "closed", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			file := p.write("fusebox.yaml", tt.file)
			for i, outcome := range sixSessions {
				p.session(file, "session/a", outcome, i)
			}
			if c := p.status().find("session/a"); c.Phase != tt.phase || c.Failures != tt.failures {
				t.Errorf("want %s with %d failures, have %+v", tt.phase, tt.failures, c)
			}
		})
	}
}

// The same with all sessions ending at once: in whatever order they are
// recorded, no failure is lost.
func TestInterleavedMorningAllAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := p.write("fusebox.yaml", windowFile)
	var sessions sync.WaitGroup
	for i, outcome := range sixSessions {
		sessions.Go(func() { p.session(file, "session/a", outcome, i) })
	}
	sessions.Wait()
	if c := p.status().find("session/a"); c.Phase != "open" || c.Failures != 3 || c.Health != "down" {
		t.Errorf("want it open after 3 failures, have %+v", c)
	}
	if code := p.session(file, "session/a", "success", 7); code != exitDenied {
		t.Errorf("the next session: want it denied, have exit code %d", code)
	}
	r := p.must("why", "session/a")
	if got := strings.Count(r.stdout, "failure crash"); got != 3 {
		t.Errorf("want the 3 failures that opened it, have %d:\n%s", got, r.stdout)
	}
	if r := p.run("doctor"); r.code != exitFailed || !strings.Contains(r.stdout, "3 failures within 1h") {
		t.Errorf("doctor: exit code %d\n%s", r.code, r.stdout)
	}
}

func TestConfigCheckWarnsOfAStreakOverSeveralWorkers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("fusebox.yaml", streakFile)
	if r := p.must("config", "check"); !strings.Contains(r.stdout, "warning") || !strings.Contains(r.stdout, "a streak over several workers") {
		t.Errorf("a streak for sessions, which run side by side: want a warning, have\n%s", r.stdout)
	}
	// What is no session warns once several workers were seen.
	file := p.write("fusebox.yaml", "circuits: {tool/*: {trip: [{streak: 3}]}}\n")
	if r := p.must("config", "check"); strings.Contains(r.stdout, "warning") {
		t.Errorf("nobody has reported yet: want no warning, have\n%s", r.stdout)
	}
	for i := range 2 {
		p.session(file, "tool/crm", "success", i)
	}
	r := p.must("config", "check")
	for _, want := range []string{"2 workers report to tool/crm", "a streak over several workers", "tool/crm\n", "over the 2 workers"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
}
