package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Explanation says where a request for a model would go, and why.
type Explanation struct {
	Dialect Dialect
	Route   string   // the pattern that matches
	Answers string   // "pass" or "whole"
	NextOn  []string // codes of errors that go on to the next backend
	Most    int      // attempts of one request, over all of them; 0 = what retries allow at each
	Choices []Choice // by priority, in the order of the configuration
}

// Choice is one backend of a route.
type Choice struct {
	Backend  string
	Priority int
	Weight   int
	Share    float64 // of the requests that are sent to it first, 0 to 1: its weight among the usable ones of the best priority
	Model    string  // by the backend's name
	Circuit  string  // of that model there
	Usable   bool
	Probe    bool            // the call would decide whether the circuit closes
	Denial   *fusebox.Denial // why it is passed over; nil = it is usable
	Why      string          // in words
}

// Explain says where a request would go now. It asks no backend and changes no
// circuit. The error says that no route serves the model in this dialect.
func (g *Gateway) Explain(d Dialect, model string) (Explanation, error) {
	r := g.routeFor(d, model)
	if len(r.tiers) == 0 {
		return Explanation{}, g.noRoute(d, model)
	}
	e := Explanation{Dialect: d, Route: r.match, Answers: answersPass, NextOn: r.nextOn, Most: r.most}
	if r.whole {
		e.Answers = answersWhole
	}
	for _, t := range r.tiers {
		for _, m := range t.members {
			choice, err := m.backend.choice(mapped(m.backend.Models, model), time.Now())
			if err != nil {
				return Explanation{}, err
			}
			choice.Priority, choice.Weight = t.priority, m.weight
			e.Choices = append(e.Choices, choice)
		}
	}
	share(e.Choices)
	return e, nil
}

// share divides the requests among the usable backends of the best priority.
func share(choices []Choice) {
	best, total := 0, 0
	for _, c := range choices {
		if c.Usable && (best == 0 || c.Priority == best) {
			best = c.Priority
			total += c.Weight
		}
	}
	for i := range choices {
		if c := &choices[i]; c.Usable && c.Priority == best {
			c.Share = float64(c.Weight) / float64(total)
		}
	}
}

// choice looks at the backend's circuits as admit asks them: that of its checks,
// the credential's, the model's.
func (b *backend) choice(model string, now time.Time) (Choice, error) {
	circuit, err := b.circuit(model)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Backend: b.Name, Model: model, Circuit: circuit.Name()}
	if c.Denial, err = b.awaits(circuit, now); err != nil {
		return Choice{}, err
	}
	account, err := b.account()
	if err != nil {
		return Choice{}, err
	}
	for _, one := range []*fusebox.Circuit{account, circuit} {
		if one == nil || c.Denial != nil {
			continue
		}
		state := one.State()
		d := state.Decide(now)
		if c.Probe = c.Probe || d.Probe; !d.Go && !d.Probe {
			c.Denial = state.Denial(one.Name(), now)
		}
	}
	if c.Denial != nil {
		c.Probe, c.Why = false, (&trial{backend: b, circuit: circuit, denial: c.Denial}).words()
		return c, nil
	}
	c.Usable, c.Why = true, usableWords(circuit.Status().Health, c.Probe)
	return c, nil
}

func usableWords(health fusebox.Health, probe bool) string {
	switch {
	case probe:
		return "usable: the next call tests whether it is back"
	case health == fusebox.Unknown:
		return "usable: nothing is known against it"
	}
	return "usable: " + health.String()
}

// noRoute says that no route serves the model in a dialect that is spoken.
func (g *Gateway) noRoute(d Dialect, model string) *refusal {
	return refuse(http.StatusNotFound, "model_not_found", fmt.Sprintf("No route of this gateway serves the model %q through the %s API. Its routes: %s.",
		shorten(model), d, strings.Join(g.patterns, ", ")))
}
