package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// binary is the program itself, built once: what is tested is what people run.
var binary string

func TestMain(m *testing.M) {
	if work := os.Getenv(workVariable); work != "" { // a process that a test started
		os.Exit(reportSession(work))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fusebox-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fusebox")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// place is where a test runs the program: a directory with its own store, and
// no configuration but what the test writes.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	work := filepath.Join(dir, "work")
	for _, d := range []string{home, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p := &place{t: t, dir: work}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "FUSEBOX_"), strings.HasSuffix(name, "_API_KEY"),
			name == "HOME", name == "NO_COLOR", strings.HasSuffix(strings.ToLower(name), "_proxy"):
		default:
			p.env = append(p.env, kv)
		}
	}
	p.env = append(p.env, "HOME="+home, "USERPROFILE="+home, "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	return p
}

// write writes a file and returns its path.
func (p *place) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// storeDir is where the default store is.
func (p *place) storeDir() string { return filepath.Join(filepath.Dir(p.dir), "state", "fusebox") }

// result is how a run of the program ended.
type result struct {
	stdout, stderr string
	code           int
}

// run runs the program to its end.
func (p *place) run(args ...string) result {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	cmd := p.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		p.t.Fatalf("fusebox %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func (p *place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// must runs the program and wants it to succeed.
func (p *place) must(args ...string) result {
	p.t.Helper()
	r := p.run(args...)
	if r.code != exitOK {
		p.t.Fatalf("fusebox %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// decode reads what the program printed as JSON.
func (r result) decode(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, r.stdout)
	}
}
