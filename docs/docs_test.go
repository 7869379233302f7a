//go:build unix

// Package docs_test runs what the documents say. The language of a fenced block
// says what is done with it:
//
//	console      a shell session, in one folder and one shell per document. Lines
//	             after "$ " are run, those after "> " belong to the one above.
//	             Other lines are what must be printed, "…" standing for
//	             anything; without them success is enough.
//	yaml         a configuration: it becomes the folder's fusebox.yaml and must
//	             pass `fusebox config check`
//	yaml alerts  Prometheus rules: they must name metrics that exist
//	crontab      it must be one; its commands are run, and must succeed or be denied
//	systemd      a service or timer; so is what its ExecStart= names
//	go           a whole program: it must compile
//	json         must be JSON, one value or one per line
//	sh           what cannot be run here; its make targets must exist
//	text         not looked at
package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// documents are the files that are looked at, from the root of the module.
var documents = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "examples/*/README.md"}

// limit bounds what one document may take.
const limit = 5 * time.Minute

var binaries string // the folder that holds the built fusebox

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fusebox-docs-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binaries = dir
		build := exec.Command("go", "build", "-o", dir, "./cmd/fusebox")
		build.Dir, build.Stderr = "..", os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building fusebox:", err)
			return 1
		}
		return m.Run()
	}())
}

func TestDocuments(t *testing.T) {
	for _, name := range documentNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				t.Fatal(err)
			}
			checkLinks(t, name, string(text))
			check(t, blocksOf(string(text)))
		})
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)`)

// checkLinks follows the links that stay within the project.
func checkLinks(t *testing.T, document, text string) {
	t.Helper()
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(match[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", filepath.Dir(document), match[1])); err != nil {
			t.Errorf("a link leads nowhere: %v", err)
		}
	}
}

// A document that the README does not list is found by nobody.
func TestReadmeListsEveryDocument(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range documentNames(t) {
		if strings.HasPrefix(name, "docs") && !strings.Contains(string(readme), "]("+filepath.ToSlash(name)+")") {
			t.Errorf("README.md does not list %s", name)
		}
	}
}

func documentNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range documents {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no document matches %s (error %v)", pattern, err)
		}
		for _, path := range found {
			names = append(names, strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		}
	}
	return names
}

func check(t *testing.T, blocks []block) {
	s := newSession(t)
	for _, b := range blocks {
		switch b.lang {
		case "console":
			s.console(b)
		case "yaml":
			s.config(b)
		case "crontab":
			s.crontab(b)
		case "systemd":
			s.unit(b)
		case "go":
			compile(t, b)
		case "json":
			checkJSON(t, b)
		case "sh":
			checkTargets(t, b)
		case "yaml alerts", "text": // see TestMetricsAreDocumented
		default:
			t.Errorf("line %d: no test knows what to do with a block of language %q", b.line, b.lang)
		}
	}
	s.run()
}

func compile(t *testing.T, b block) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "vet", file)
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("line %d: %v\n%s", b.line, err, out)
	}
}

func checkJSON(t *testing.T, b block) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(b.text))
	for {
		var value any
		if err := decoder.Decode(&value); err == io.EOF {
			return
		} else if err != nil {
			t.Errorf("line %d: %v", b.line, err)
			return
		}
	}
}

var target = regexp.MustCompile(`(?m)^make ([a-z-]+)`)

func checkTargets(t *testing.T, b block) {
	t.Helper()
	for _, match := range target.FindAllStringSubmatch(b.text, -1) {
		dry := exec.Command("make", "--dry-run", match[1])
		dry.Dir = ".."
		if out, err := dry.CombinedOutput(); err != nil {
			t.Errorf("line %d: make %s: %v\n%s", b.line, match[1], err, out)
		}
	}
}

// session is one document's shell: a script that is built first and run once, so
// that variables and background processes last from block to block.
type session struct {
	t      *testing.T
	dir    string
	script strings.Builder
	steps  []step
}

// step is one command and what it must print.
type step struct {
	line    int
	command string
	want    string // "" = nothing is asked
}

func newSession(t *testing.T) *session {
	s := &session{t: t, dir: t.TempDir()}
	s.script.WriteString(prelude)
	return s
}

// The addresses of the gateway and of the admin listener, as documents have them.
const (
	gatewayAddress = "127.0.0.1:4040"
	adminAddress   = "127.0.0.1:4041"
)

// prelude defines what the commands of a document need: the end of background
// processes, and addresses that the system picks instead of the usual ones.
const prelude = `
set -u
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
serve() { # starts "fusebox up" and waits for its first line, which names its addresses
	fusebox up --listen 127.0.0.1:0 --admin 127.0.0.1:0 "$@" >up.out 2>up.err &
	local up=$!
	until grep -qs http up.out; do
		kill -0 $up 2>/dev/null || { cat up.err; return 1; }
		sleep 0.05
	done
	head -1 up.out | grep -oE '127\.0\.0\.1:[0-9]+' >addresses
	{ read -r GATEWAY; read -r ADMIN; } <addresses
	cat up.out
}
`

// console adds the commands of a block.
func (s *session) console(b block) {
	first := len(s.steps)
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			s.steps = append(s.steps, step{line: b.line + i, command: command})
		} else if n := len(s.steps); n == first {
			s.t.Errorf("line %d: want a command after \"$ \"", b.line+i)
		} else if more, ok := strings.CutPrefix(line, "> "); ok && s.steps[n-1].want == "" {
			s.steps[n-1].command += "\n" + more
		} else {
			s.steps[n-1].want += line + "\n"
		}
	}
	for i := first; i < len(s.steps); i++ {
		s.add(i)
	}
}

var up = regexp.MustCompile(`^fusebox up(.*) &$`)

func (s *session) add(i int) {
	command := up.ReplaceAllString(s.steps[i].command, "serve$1")
	command = strings.ReplaceAll(command, gatewayAddress, "$GATEWAY")
	command = strings.ReplaceAll(command, adminAddress, "$ADMIN")
	fmt.Fprintf(&s.script, "{ %s\n} >step-%d.out 2>&1 </dev/null; echo $? >step-%d.code\n", command, i, i)
}

// variable finds the environment that a configuration needs.
var variable = regexp.MustCompile(`env: *"?([A-Z][A-Z0-9_]*)`)

// config adds the loading of a configuration.
func (s *session) config(b block) {
	name := fmt.Sprintf("config-%d.yaml", len(s.steps))
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(b.text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	for _, match := range variable.FindAllStringSubmatch(b.text, -1) {
		fmt.Fprintf(&s.script, "export %s=not-a-real-key\n", match[1])
	}
	s.steps = append(s.steps, step{line: b.line, command: "cp " + name + " fusebox.yaml && fusebox config check"})
	s.add(len(s.steps) - 1)
}

// run runs the script and compares what the steps printed.
func (s *session) run() {
	if len(s.steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", s.script.String())
	shell.Dir = s.dir
	shell.Env = []string{
		"PATH=" + binaries + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + s.dir, "XDG_STATE_HOME=" + filepath.Join(s.dir, "state"), "XDG_CONFIG_HOME=" + filepath.Join(s.dir, "config"),
		"TZ=UTC", "NO_COLOR=1",
	}
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	shell.WaitDelay = 5 * time.Second
	if err := shell.Run(); err != nil && ctx.Err() != nil {
		s.t.Errorf("not done within %v", limit)
	}
	addresses, _ := os.ReadFile(filepath.Join(s.dir, "addresses"))
	usual := strings.NewReplacer()
	if real := strings.Fields(string(addresses)); len(real) == 2 {
		usual = strings.NewReplacer(real[0], gatewayAddress, real[1], adminAddress)
	}
	for i, step := range s.steps {
		code, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("step-%d.code", i)))
		if err != nil {
			s.t.Errorf("line %d: $ %s\ndid not end: %s", step.line, step.command, out.Bytes())
			return
		}
		out, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("step-%d.out", i)))
		printed := usual.Replace(string(out))
		if string(code) != "0\n" {
			s.t.Errorf("line %d: $ %s\nexit code %s%s", step.line, step.command, code, printed)
		} else if step.want != "" && !matches(step.want, printed) {
			s.t.Errorf("line %d: $ %s\nprinted\n%swant\n%s", step.line, step.command, printed, step.want)
		}
	}
}

var spaces = regexp.MustCompile(`[ \t]+`)

// matches reports whether a command printed what its document shows, in which "…"
// stands for anything within a line, or alone on a line for any lines. How wide
// columns are does not matter.
func matches(want, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		line = regexp.QuoteMeta(strings.TrimRight(spaces.ReplaceAllString(line, " "), " "))
		pattern.WriteString(strings.ReplaceAll(line, "…", `.*`) + ` *\n`)
	}
	pattern.WriteString(`$`)
	printed = spaces.ReplaceAllString(strings.TrimSpace(printed), " ") + "\n"
	return regexp.MustCompile(pattern.String()).MatchString(printed)
}

func TestMatches(t *testing.T) {
	tests := []struct {
		name, want, printed string
		match               bool
	}{
		{"same", "a  b\nc\n", "a b\nc\n", true},
		{"other words", "a\n", "b\n", false},
		{"more than shown", "a\n", "a\nb\n", false},
		{"less than shown", "a\nb\n", "a\n", false},
		{"anything in a line", "took … ms\n", "took 12 ms\n", true},
		{"any lines", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"no line", "a\n…\n", "a\n", true},
		{"signs of patterns", "a.c [x]*\n", "abc x\n", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := matches(test.want, test.printed); got != test.match {
				t.Errorf("got %v, want %v", got, test.match)
			}
		})
	}
}
