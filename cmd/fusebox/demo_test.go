package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDemoForPeople(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := newPlace(t).command(ctx, "demo").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"INTERLEAVED SESSIONS", "RETRY LOOP", "LONG OUTAGE", "WORKER FLEET", "LOCAL FIRST",
		"without  23 calls\n", "with     17 calls, 6 runs refused, 2 of 3 probes failed\n"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if bytes.ContainsRune(out, '\x1b') {
		t.Error("colours where no terminal is")
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 80 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	if whys := bytes.Count(out, []byte("\nwhy ")); whys != 5 {
		t.Errorf("%d reasons, want 5", whys)
	}
}

func TestDemoAsJSON(t *testing.T) {
	out := newPlace(t).must("demo", "--json").stdout
	if want := `{"story":"long outage","with":{"calls":17,"denied":6},"without":{"calls":23}}` + "\n"; !strings.Contains(out, want) {
		t.Errorf("want %s in\n%s", want, out)
	}
	var names []string
	for line := range strings.Lines(out) {
		var story struct {
			Story         string
			With, Without map[string]any
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&story); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		if len(story.With) == 0 || len(story.Without) == 0 {
			t.Errorf("no numbers: %s", line)
		}
		names = append(names, story.Story)
	}
	if got := strings.Join(names, ", "); got != "interleaved sessions, retry loop, long outage, worker fleet, local first" {
		t.Errorf("stories %s", got)
	}
}

func TestDemoOfOneStory(t *testing.T) {
	p := newPlace(t)
	for _, args := range [][]string{{"long", "outage"}, {"long outage"}, {"long-outage"}} {
		out := p.must(append([]string{"demo", "--json"}, args...)...).stdout
		if strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, `{"story":"long outage"`) {
			t.Errorf("%q: %s", args, out)
		}
	}
	r := p.run("demo", "short", "outage")
	if r.code != exitUsage || !strings.Contains(r.stderr, `no story is called "short outage"`) {
		t.Errorf("a story that is none: exit code %d, %s", r.code, r.stderr)
	}
}
