package main

import (
	"strings"
	"testing"
)

// routed points at addresses where nothing listens: route asks nobody. Its key
// is not there, which route does not need.
const routed = `
backends:
  local: {url: "http://127.0.0.1:9/v1", dialect: openai, models: {"*": llama3.2}}
  paid:  {url: "http://127.0.0.1:9/v1", dialect: openai, key: {env: PAID_API_KEY}}
  other: {url: "http://127.0.0.1:9/v1", dialect: anthropic}
routes:
  - {match: "gpt-*", backends: [local, paid]}
  - {match: "shared-*", backends: [{backend: local, priority: 1, weight: 3}, {backend: paid, priority: 1}]}
  - {match: "claude-*", backends: [other], answers: whole, next_on: []}
`

func TestRouteExplainsTheChoice(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", routed)
	p.must("trip", "model/local/llama3.2", "--reason", "bad release")

	var r routeReport
	p.must("route", "gpt-5", "--json").decode(t, &r)
	if r.Dialect != "openai" || r.Route != "gpt-*" || r.Answers != "pass" || r.Picked != "paid" || len(r.Choices) != 2 {
		t.Fatalf("%+v", r)
	}
	local, paid := r.Choices[0], r.Choices[1]
	if local.Share != 0 || paid.Share != 1 || local.Priority != 1 || paid.Priority != 2 {
		t.Errorf("shares: %+v", r.Choices)
	}
	if local.Usable || local.Circuit != "model/local/llama3.2" || local.Denied == nil || !strings.HasPrefix(local.Why, "circuit open for another ") {
		t.Errorf("local: %+v", local)
	}
	if !paid.Usable || paid.Model != "gpt-5" || paid.Denied != nil {
		t.Errorf("paid: %+v", paid)
	}

	p.must("hold", "open", "model/paid/gpt-5", "--reason", "invoice")
	if out := p.must("route", "gpt-5").stdout; !strings.Contains(out, "held open by an operator") || !strings.HasSuffix(out, "No backend is usable.\n") {
		t.Errorf("printed:\n%s", out)
	}
	if out := p.must("route", "claude-x").stdout; !strings.HasPrefix(out, `claude-x through the anthropic API: route "claude-*", answers: whole, next on: none`+"\n") || !strings.Contains(out, "→  other") {
		t.Errorf("printed:\n%s", out)
	}
	if got := p.run("route", "llama"); got.code != exitFailed || !strings.Contains(got.stderr, "Its routes: gpt-*, shared-*, claude-*.") {
		t.Errorf("a model without a route: exit code %d: %s", got.code, got.stderr)
	}
}

func TestRouteSharesByWeight(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", routed)
	var r routeReport
	p.must("route", "shared-x", "--json").decode(t, &r)
	if r.Picked != "local" || r.Choices[0].Share != 0.75 || r.Choices[1].Share != 0.25 || r.Choices[0].Weight != 3 || r.Choices[1].Priority != 1 {
		t.Errorf("%+v", r)
	}
	if out := p.must("route", "shared-x").stdout; strings.Count(out, "→") != 2 || !strings.Contains(out, "75 %") || !strings.Contains(out, "25 %") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestRouteChangesNothing(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", routed)
	p.must("route", "gpt-5")
	if out := p.must("status").stdout; out != "No circuit has any evidence yet.\n" {
		t.Errorf("status after route:\n%s", out)
	}
}
