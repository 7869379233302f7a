//go:build unix

package session

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func shell(script string) *Process {
	return &Process{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard}
}

func TestProcessKeepsItsExitCodeAndStreams(t *testing.T) {
	var out, errs bytes.Buffer
	p := &Process{Args: []string{"sh", "-c", `read line; echo "out $line"; echo err >&2; exit 7`},
		Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs}
	e := p.Run()
	if e.Code != 7 || out.String() != "out in\n" || errs.String() != "err\n" {
		t.Errorf("code %d, %q, %q", e.Code, out.String(), errs.String())
	}
	if r := e.Result(time.Now(), 0); r.Outcome != fusebox.Failure || r.Class != fusebox.ClassCrash {
		t.Errorf("result %+v", r)
	}
}

func TestProcessEnds(t *testing.T) {
	tests := []struct {
		name    string
		process *Process
		code    int
		outcome fusebox.Outcome
		class   fusebox.Class
	}{
		{"exit 0", shell("exit 0"), 0, fusebox.Success, ""},
		{"exit 1", shell("exit 1"), 1, fusebox.Failure, fusebox.ClassCrash},
		{"killed", shell("kill -9 $$"), 137, fusebox.Failure, fusebox.ClassCrash},
		{"not found", &Process{Args: []string{"no-such-command-here"}}, 127, fusebox.Failure, fusebox.ClassCrash},
		{"no such file", &Process{Args: []string{"/no/such/file"}}, 127, fusebox.Failure, fusebox.ClassCrash},
		{"not executable", &Process{Args: []string{"/etc/passwd"}}, 126, fusebox.Failure, fusebox.ClassCrash},
		{"timeout", &Process{Args: []string{"sleep", "60"}, Timeout: 20 * time.Millisecond}, 143, fusebox.Failure, fusebox.ClassTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := tt.process.Run()
			r := e.Result(time.Now(), 0)
			if e.Code != tt.code || r.Outcome != tt.outcome || r.Class != tt.class {
				t.Errorf("code %d, result %+v; want %d, %v %v", e.Code, r, tt.code, tt.outcome, tt.class)
			}
		})
	}
}

func TestProcessThatIsDeafToSIGTERMIsKilled(t *testing.T) {
	signal.Ignore(syscall.SIGTERM) // the process inherits it, and is deaf from its start
	defer func() {                 // Reset would not undo it
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGTERM)
		signal.Stop(heard)
	}()
	p := &Process{Args: []string{"sleep", "60"}, Timeout: 10 * time.Millisecond, Grace: 10 * time.Millisecond}
	e := p.Run()
	if r := e.Result(time.Now(), 0); e.Code != 137 || r.Outcome != fusebox.Failure || r.Class != fusebox.ClassTimeout {
		t.Errorf("code %d, result %+v", e.Code, r)
	}
}

func TestUsageLimitInTheOutputThrottles(t *testing.T) {
	limit, err := NewLimit("default")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := shell(`echo "usage limit reached, resets in 2 hours"; exit 1`)
	p.Stdout, p.Limit = &out, limit
	e := p.Run()
	now := time.Now()
	r := e.Result(now, time.Hour)
	if r.Outcome != fusebox.Throttled || r.NotBefore.Sub(now).Round(time.Minute) != 2*time.Hour || e.Code != 1 {
		t.Errorf("code %d, result %+v", e.Code, r)
	}
	if out.String() != "usage limit reached, resets in 2 hours\n" {
		t.Errorf("the output was not passed on: %q", out.String())
	}
	p = shell(`echo "limit reached"`)
	p.Limit = limit
	e = p.Run()
	if r := e.Result(now, 90*time.Minute); r.Outcome != fusebox.Throttled || !r.NotBefore.Equal(now.Add(90*time.Minute)) {
		t.Errorf("a limit without a time: %+v", r)
	}
}

// What a grandchild holds open must not keep the report from being made.
func TestGrandchildThatHoldsTheOutputDelaysNothingForLong(t *testing.T) {
	limit, err := NewLimit("default")
	if err != nil {
		t.Fatal(err)
	}
	p := shell("sleep 60 & exit 3")
	p.Limit = limit
	began := time.Now()
	if e := p.Run(); e.Code != 3 {
		t.Errorf("code %d", e.Code)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestSignalsArePassedOn runs this test binary as the guard, because signals
// are sent to whole processes.
func TestSignalsArePassedOn(t *testing.T) {
	if os.Getenv("FUSEBOX_TEST_GUARD") != "" {
		p := &Process{Args: []string{"sh", "-c", os.Getenv("FUSEBOX_TEST_GUARD")}, Stdout: os.Stdout, Stderr: os.Stderr}
		e := p.Run()
		r := e.Result(time.Now(), 0)
		_, _ = os.Stdout.WriteString("guard: " + r.Outcome.String() + "\n")
		os.Exit(e.Code)
	}
	tests := []struct {
		name, script string
		signal       syscall.Signal
		code         int
		want         []string
	}{
		{"dies of it", `echo ready; while :; do sleep 0.05; done`, syscall.SIGTERM, 143, []string{"guard: canceled"}},
		{"its child gets it too", `trap "wait; exit 5" TERM; sh -c 'trap "echo grandchild; exit 0" TERM; echo ready; while :; do sleep 0.05; done' & wait; exit 4`,
			syscall.SIGTERM, 5, []string{"grandchild", "guard: canceled"}},
		{"handles it and ends well", `trap "echo bye; exit 0" INT; echo ready; while :; do sleep 0.05; done`, syscall.SIGINT, 0, []string{"bye", "guard: success"}},
		{"goes on", `trap "echo usr1; exit 9" USR1; echo ready; while :; do sleep 0.05; done`, syscall.SIGUSR1, 9, []string{"usr1", "guard: failure"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, tt.signal) // else the guard ignores it where these tests were started to
			defer signal.Stop(heard)
			cmd := exec.Command(os.Args[0], "-test.run=^TestSignalsArePassedOn$")
			cmd.Env = append(os.Environ(), "FUSEBOX_TEST_GUARD="+tt.script)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(30*time.Second, func() {
				_ = cmd.Process.Kill()
				_ = stdout.Close() // what the guard started may hold the other end
			}).Stop()
			lines := bufio.NewScanner(stdout)
			var seen []string
			for lines.Scan() {
				if lines.Text() == "ready" {
					if err := cmd.Process.Signal(tt.signal); err != nil {
						t.Fatal(err)
					}
					continue
				}
				seen = append(seen, lines.Text())
			}
			_ = cmd.Wait() // its exit code is looked at
			if code := cmd.ProcessState.ExitCode(); code != tt.code || strings.Join(seen, "|") != strings.Join(tt.want, "|") {
				t.Errorf("code %d, %q; want %d, %q", code, seen, tt.code, tt.want)
			}
		})
	}
}
