package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGuardOfACircuit(t *testing.T) {
	c, err := Parse("f.yaml", []byte(`
circuits:
  tool/calc/*: {thrash: off}
  tool/pay/*: {on_open: stop_run, unit: attempt}
thrash: {identify: {tool/crm/*: [/tenant], tool/crm/lookup: [/id]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if g := c.Guard("tool/calc/add"); !g.ThrashOff || g.StopRun || g.PerAttempt {
		t.Errorf("tool/calc/add: %+v", g)
	}
	if g := c.Guard("tool/pay/send"); g.ThrashOff || !g.StopRun || !g.PerAttempt {
		t.Errorf("tool/pay/send: %+v", g)
	}
	for circuit, want := range map[string][]string{"tool/crm/lookup": {"/id"}, "tool/crm/list": {"/tenant"}, "tool/x/y": nil} {
		if g := c.Guard(circuit); !slices.Equal(g.Identify, want) {
			t.Errorf("%s: want %v, have %v", circuit, want, g.Identify)
		}
	}
	c.Thrash.Off = true
	if g := c.Guard("tool/crm/list"); !g.ThrashOff {
		t.Error("thrash is off for all, and on for one")
	}
}

func TestThrashRules(t *testing.T) {
	texts := filepath.Join(t.TempDir(), "denials.tmpl")
	if err := os.WriteFile(texts, []byte(`{{define "open"}}{{.Tool}} is out.{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	given := Thrash{Repeats: 4, SameError: 0, StopAfter: 5, StuckAfterFailures: 7, Forget: time.Minute, Texts: texts, Ignore: []string{"nonce"}}
	r, err := given.Rules()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if r.Repeats != 4 || r.SameError != 0 || r.StopAfter != 5 || r.StuckAfterFailures != 7 || r.Forget != time.Minute || r.Texts == nil || len(r.Ignore) != 1 {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(texts, []byte(`{{define "open"}}{{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := given.Rules(); err == nil || !strings.Contains(err.Error(), texts) {
		t.Errorf("want an error that names the file, have %v", err)
	}
}
