package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
)

// lineSchema is evidence.schema.json.
func lineSchema(t *testing.T) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	text, err := os.ReadFile("evidence.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &schema, resolved
}

func validate(schema *jsonschema.Resolved, line string) error {
	var value any
	if err := json.Unmarshal([]byte(line), &value); err != nil {
		return err
	}
	return schema.Validate(value)
}

// everyField is a record of each kind, with all the fields that go with it.
func everyField() []fusebox.Event {
	at := time.Date(2026, 3, 1, 10, 0, 0, 123456789, time.UTC)
	state := fusebox.Fold(fusebox.DefaultPolicy("tool"), fusebox.State{}, fusebox.Event{At: at, Outcome: fusebox.Failure})
	return []fusebox.Event{
		{At: at, Circuit: "tool/crm/lookup", Outcome: fusebox.Failure, Class: fusebox.ClassServer, Elapsed: 1500 * time.Microsecond,
			Attempts: 2, Worker: "a", Run: "r", Call: "c", Error: "oops", Admitted: true, Version: 3, Lease: "l", Late: true,
			Overdue: true, State: &state},
		{At: at, Outcome: fusebox.Success, N: 12, Since: at.Add(-time.Minute)},
		{At: at, Outcome: fusebox.Throttled, Until: at.Add(time.Minute)},
		{At: at, Outcome: fusebox.Rejected},
		{At: at, Outcome: fusebox.Canceled},
		{At: at, Kind: fusebox.KindLease, Action: fusebox.ActionGranted, Lease: "l", Until: at, LastResort: true, Pick: true},
		{At: at, Kind: fusebox.KindDenied, N: 2, Since: at, Reason: fusebox.ReasonOpen, Observed: true},
		{At: at, Kind: fusebox.KindTransition, From: fusebox.Closed, Phase: fusebox.Open, Version: 1, Failures: 3, Cause: "3 failures in a row"},
		{At: at, Kind: fusebox.KindHold, Action: fusebox.ActionHeld, Phase: fusebox.Open, Until: at, Cause: "invoice"},
		{At: at, Kind: fusebox.KindThrottle, Until: at},
		{At: at, Kind: fusebox.KindTrip},
		{At: at, Kind: fusebox.KindReset},
		{At: at, Kind: fusebox.KindStart},
		{At: at, Kind: fusebox.KindCheckpoint, State: &state},
	}
}

// The schema knows every field that is written, and no field that never is.
func TestSchemaHasEveryField(t *testing.T) {
	schema, resolved := lineSchema(t)
	written := map[string]bool{}
	for _, e := range everyField() {
		line := string(e.AppendJSON(nil))
		if err := validate(resolved, line); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		maps.Copy(written, boolean(fields))
	}
	if have, want := sorted(boolean(schema.Properties)), sorted(written); !slices.Equal(have, want) {
		t.Errorf("the schema has the fields\n%v\nwritten are\n%v", have, want)
	}
}

func boolean[V any](m map[string]V) map[string]bool {
	b := make(map[string]bool, len(m))
	for key := range m {
		b[key] = true
	}
	return b
}

func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// The log of a dependency that fails, is probed and comes back, and with which
// an operator interferes, is as the schema says.
func TestSchemaOfALife(t *testing.T) {
	_, schema := lineSchema(t)
	dir := t.TempDir()
	live(t, dir)
	log, err := os.ReadFile(filepath.Join(dir, "tool+crm+lookup.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) < 10 {
		t.Errorf("%d lines, want at least 10", len(lines))
	}
	for _, line := range lines {
		if err := validate(schema, line); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
	}
}

// live leaves the log of such a life in dir.
func live(t *testing.T, dir string) {
	t.Helper()
	store, err := filestore.Open(filestore.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	policy := fusebox.DefaultPolicy("tool")
	policy.Cooldown = fusebox.Cooldown{}
	box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return policy }, Worker: "laptop", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	circuit, err := box.Circuit("tool/crm/lookup")
	if err != nil {
		t.Fatal(err)
	}
	report := func(r fusebox.Result) {
		if permit, err := circuit.Allow(context.Background()); err == nil {
			permit.Done(r)
		}
	}
	for range 5 {
		report(fusebox.Result{})
	}
	for range 3 {
		report(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: errors.New("status 500")})
	}
	report(fusebox.Result{})
	circuit.Hold(fusebox.Open, time.Time{}, "invoice")
	report(fusebox.Result{})
	circuit.Lift("paid")
	report(fusebox.Result{Outcome: fusebox.Throttled})
	circuit.Reset("all is well")
	if err := box.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// The schema refuses what a reader would skip, and nothing that it would take.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	_, schema := lineSchema(t)
	tests := []struct {
		name, line string
		valid      bool
	}{
		{"least evidence", `{"at":"2026-03-01T10:00:00Z","outcome":"success"}`, true},
		{"another zone", `{"at":"2026-03-01T12:00:00.5+02:00","outcome":"failure"}`, true},
		{"kind evidence", `{"at":"2026-03-01T10:00:00Z","kind":"evidence","outcome":"failure"}`, true},
		{"unknown field", `{"at":"2026-03-01T10:00:00Z","outcome":"success","colour":"red"}`, true},
		{"unknown kind", `{"at":"2026-03-01T10:00:00Z","kind":"weather"}`, true},
		{"no time", `{"outcome":"success"}`, false},
		{"time without zone", `{"at":"2026-03-01T10:00:00","outcome":"success"}`, false},
		{"time of another age", `{"at":"0001-01-01T00:00:00Z","outcome":"success"}`, false},
		{"no outcome", `{"at":"2026-03-01T10:00:00Z"}`, false},
		{"kind evidence without outcome", `{"at":"2026-03-01T10:00:00Z","kind":"evidence"}`, false},
		{"unknown outcome", `{"at":"2026-03-01T10:00:00Z","outcome":"fine"}`, false},
		{"negative count", `{"at":"2026-03-01T10:00:00Z","outcome":"success","n":-1}`, false},
		{"text for a number", `{"at":"2026-03-01T10:00:00Z","outcome":"success","ms":"12"}`, false},
		{"not an object", `["success"]`, false},
		{"not JSON", `at=2026-03-01`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := validate(schema, test.line); (err == nil) != test.valid {
				t.Errorf("the schema says %v, want valid %v", err, test.valid)
			}
			if _, err := fusebox.ParseEvent([]byte(test.line)); (err == nil) != test.valid {
				t.Errorf("the reader says %v, want valid %v", err, test.valid)
			}
		})
	}
}

// The lines that log-format.md shows are lines of the log.
func TestLogFormatShowsLines(t *testing.T) {
	_, schema := lineSchema(t)
	text, err := os.ReadFile("log-format.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, b := range blocksOf(string(text)) {
		if b.lang != "json" {
			continue
		}
		for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
			if !strings.HasPrefix(line, `{"at"`) {
				continue
			}
			shown++
			if err := validate(schema, line); err != nil {
				t.Errorf("line %d: %v", b.line+i, err)
			}
			if _, err := fusebox.ParseEvent([]byte(line)); err != nil {
				t.Errorf("line %d: %v", b.line+i, err)
			}
		}
	}
	if shown == 0 {
		t.Error("log-format.md shows no line of the log")
	}
}
