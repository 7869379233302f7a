package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

func TestExplainSaysWhatTheRoutingDoesAndAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, d := newUpstream(t, "a", status(429, `{}`, "Retry-After", "30")), newUpstream(t, "b", chats("from b")), newUpstream(t, "d", chats("from d"))
		mapped := b.backend()
		mapped.Models = map[string]string{"*": "other"}
		keyed := d.backend()
		keyed.Key, keyed.KeyName = func() string { return "k" }, "D_KEY"
		box, err := fusebox.New(fusebox.Config{Policy: trips(1, time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close(t.Context())
		g, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{a.backend(), mapped, keyed},
			Routes: []gateway.Route{{Match: "m*", Backends: gateway.InOrder("a", "b", "d"), Answers: "whole"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		circuit := func(name string) *fusebox.Circuit {
			c, err := box.Circuit(name)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		circuit("model/a/m").Throttle(time.Now().Add(time.Hour), "invoice")
		circuit("credential/d_key").Trip("leaked")

		e, err := g.Explain(gateway.OpenAI, "m")
		if err != nil || e.Route != "m*" || e.Answers != "whole" || len(e.Choices) != 3 || e.NextOn[0] != "context_length_exceeded" {
			t.Fatalf("%v: %+v", err, e)
		}
		for i, want := range []struct {
			backend, circuit, why string
			usable                bool
		}{
			{"a", "model/a/m", "throttled for another 3600 s", false},
			{"b", "model/b/other", "usable: nothing is known against it", true},
			{"d", "model/d/m", "credential/d_key circuit open", false},
		} {
			c := e.Choices[i]
			if c.Backend != want.backend || c.Circuit != want.circuit || c.Usable != want.usable || !strings.HasPrefix(c.Why, want.why) || (c.Denial == nil) != want.usable {
				t.Errorf("%+v, want %+v", c, want)
			}
		}
		if n := a.hits() + b.hits() + d.hits(); n != 0 {
			t.Errorf("the backends were asked %d times", n)
		}
		if a, b, d := e.Choices[0], e.Choices[1], e.Choices[2]; a.Share != 0 || b.Share != 1 || d.Share != 0 || a.Priority != 1 || d.Priority != 3 {
			t.Errorf("shares and priorities: %+v", e.Choices)
		}
		if _, err := g.Explain(gateway.OpenAI, "x"); err == nil || !strings.Contains(err.Error(), "Its routes: m*.") {
			t.Errorf("a model without a route: %v", err)
		}
	})
}

func TestExplainDividesTheRequestsOfThePriorityThatIsUsable(t *testing.T) {
	f, _ := shared(t, nil, nil)
	for _, step := range []struct {
		trip string
		want [4]float64 // of a, b, c and d
	}{
		{"", [4]float64{0.5, 0.25, 0.25, 0}},
		{"model/a/m", [4]float64{0, 0.5, 0.5, 0}},
		{"model/b/m", [4]float64{0, 0, 1, 0}},
		{"model/c/m", [4]float64{0, 0, 0, 1}},
		{"model/d/m", [4]float64{}},
	} {
		if step.trip != "" {
			f.circuit(t, step.trip).Trip("bad release")
		}
		e, err := f.gateway.Explain(gateway.OpenAI, "m")
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range e.Choices {
			if c.Share != step.want[i] || c.Weight != []int{2, 1, 1, 1}[i] || c.Priority != []int{1, 1, 1, 2}[i] {
				t.Errorf("without %s: %+v, want the share %v", step.trip, c, step.want[i])
			}
		}
	}
}
