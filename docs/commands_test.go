//go:build unix

package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

// sessionLife is what makes the commands write every kind of record that they
// can: a session that works, some that die, a refusal, a probe by pick and one
// by run, and an operator.
const sessionLife = `
c=session/a
fusebox run --circuit $c --run r1 -- true
for i in 1 2 3; do fusebox run --circuit $c --trip count=3,within=60m --cooldown 0s -- false; done
fusebox pick $c
fusebox run --circuit $c -- true # refused: the pick is the probe
fusebox record --circuit $c --outcome success --ms 12.5 --run r2
fusebox trip $c --reason "bad release"
fusebox run --circuit $c -- true # the probe
fusebox run --circuit $c --limit-pattern default -- sh -c 'echo usage limit reached, resets in 1h; exit 1'
fusebox throttle $c --for 1m --reason invoice
fusebox hold open $c --for 1h --reason invoice
fusebox hold --lift $c --reason paid
fusebox reset $c --reason paid
fusebox record --circuit $c --grade 0.1 --floor 0.3 --error "no better than the floor"
echo '{"at":"2026-03-01T10:00:00Z","outcome":"success","n":3,"since":"2026-03-01T09:00:00Z"}' | fusebox record --circuit $c --stdin
true
`

// What run, pick, record and an operator's commands write is as the schema says.
func TestSchemaOfTheCommands(t *testing.T) {
	dir := t.TempDir()
	shell := exec.CommandContext(t.Context(), "sh", "-c", sessionLife)
	shell.Dir = dir
	shell.Env = []string{"PATH=" + binaries + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "FUSEBOX_STORE=file://" + dir + "/store"}
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "store", "session+a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	fields, schema := lineSchema(t)
	var seen []string
	var begun, ended []string // ids of guarded processes
	for line := range strings.Lines(string(log)) {
		if err := validate(schema, strings.TrimSpace(line)); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		var written map[string]any
		if err := json.Unmarshal([]byte(line), &written); err != nil {
			t.Fatal(err)
		}
		for field := range written {
			if fields.Properties[field] == nil {
				t.Errorf("the schema does not know %s:\n%s", field, line)
			}
		}
		e, err := fusebox.ParseEvent([]byte(line))
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		seen = append(seen, kindOf(e))
		if e.Kind == fusebox.KindStart {
			begun = append(begun, e.Call)
		} else if e.Call != "" {
			ended = append(ended, e.Call)
		}
	}
	for _, kind := range []string{"success", "failure", "throttled", "transition", "lease granted", "lease granted to pick",
		"denied", "start", "throttle", "hold held", "hold lifted", "trip", "reset"} {
		if !slices.Contains(seen, kind) {
			t.Errorf("no record of %s in\n%s", kind, log)
		}
	}
	if len(begun) != 6 || !slices.Equal(begun, ended) {
		t.Errorf("started %q, ended %q: want the same six", begun, ended)
	}
}

// kindOf tells records apart as the test wants to see them all.
func kindOf(e fusebox.Event) string {
	switch {
	case e.Kind == fusebox.KindEvidence:
		return e.Outcome.String()
	case e.Kind == fusebox.KindLease && e.Pick:
		return "lease " + string(e.Action) + " to pick"
	case e.Action != "":
		return string(e.Kind) + " " + string(e.Action)
	}
	return string(e.Kind)
}
