package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A session's flags give the same policy every time: that is no news, and must
// not cost a checkpoint in the log at every start.
func TestRunWithTheSameFlagsWritesNoCheckpoints(t *testing.T) {
	p := newPlace(t)
	for range 5 {
		p.must("run", "--circuit", "session/a", "--trip", "count=3,within=60m", "--", "true")
	}
	log, err := os.ReadFile(filepath.Join(p.storeDir(), "session+a.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(log), "\n"); lines != 10 || strings.Contains(string(log), `"checkpoint"`) {
		t.Errorf("%d lines, want a start and an end for each of five runs:\n%s", lines, log)
	}
}
