package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// routeReport is what route prints with --json, for each dialect that serves
// the model.
type routeReport struct {
	Model    string        `json:"model"`
	Dialect  string        `json:"dialect"`
	Route    string        `json:"route"`
	Answers  string        `json:"answers"`
	NextOn   []string      `json:"next_on"`
	Attempts int           `json:"attempts,omitempty"` // that one request makes at most; 0 = what retries allow at each backend
	Picked   string        `json:"picked"`             // the one with the largest share; "" = no backend is usable
	Choices  []routeChoice `json:"choices"`
}

type routeChoice struct {
	Backend  string          `json:"backend"`
	Priority int             `json:"priority"`
	Weight   int             `json:"weight"`
	Share    float64         `json:"share"` // of the requests that are sent to it first
	Model    string          `json:"model"`
	Circuit  string          `json:"circuit"`
	Usable   bool            `json:"usable"`
	Probe    bool            `json:"probe"`
	Why      string          `json:"why"`
	Denied   *fusebox.Denial `json:"denied,omitempty"`
}

func (a *app) routeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "route MODEL",
		Short: "Show where a request for a model would go, and why",
		Long: `Show where a request for a model would go now: the route that matches, its
backends by priority, the share of the requests that each gets first, the circuit
that guards it, and why it is usable or passed over. Nobody is asked, and nothing
changes. It looks at what the store knows; a gateway that lost its store may know
otherwise, and how much of a limit is left only the gateway knows.`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error { return a.route(c.Context(), args[0]) },
	}
}

func (a *app) route(ctx context.Context, model string) (err error) {
	c, err := a.servedConfig(false)
	if err != nil {
		return err
	}
	if len(c.Backends) == 0 {
		return &exitError{exitConfig, errors.New("there are no backends to route to: describe them in a configuration file")}
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	box, err := a.newBox(c, c.Policy, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close(ctx)) }()
	g, err := a.newGateway(c, box, gateway.Observer{}, noSecrets)
	if err != nil {
		return err
	}
	defer g.Close()
	reports, err := explainRoute(g, model)
	if err != nil {
		return err
	}
	return a.printRoutes(reports)
}

// explainRoute asks for every dialect; the error is that none serves the model.
func explainRoute(g *gateway.Gateway, model string) (reports []routeReport, err error) {
	for _, d := range []gateway.Dialect{gateway.OpenAI, gateway.Anthropic} {
		e, problem := g.Explain(d, model)
		if problem != nil {
			err = errors.Join(err, problem)
			continue
		}
		r := routeReport{Model: model, Dialect: string(d), Route: e.Route, Answers: e.Answers, NextOn: e.NextOn, Attempts: e.Most}
		most := 0.0
		for _, c := range e.Choices {
			if c.Share > most {
				r.Picked, most = c.Backend, c.Share
			}
			r.Choices = append(r.Choices, routeChoice{c.Backend, c.Priority, c.Weight, c.Share, c.Model, c.Circuit, c.Usable, c.Probe, c.Why, c.Denial})
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return nil, err
	}
	return reports, nil
}

func (a *app) printRoutes(reports []routeReport) error {
	for i, r := range reports {
		if a.json {
			if err := a.printJSON(r); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			a.printf("\n")
		}
		next := "none"
		if len(r.NextOn) > 0 {
			next = strings.Join(r.NextOn, ", ")
		}
		if r.Attempts > 0 {
			next += ", at most " + countOf(r.Attempts, "attempt")
		}
		a.printf("%s through the %s API: route %q, answers: %s, next on: %s\n", printable(r.Model), r.Dialect, r.Route, r.Answers, next)
		t := &table{}
		t.row(" ", "BACKEND", "PRIORITY", "WEIGHT", "SHARE", "MODEL", "CIRCUIT", "WHY")
		for _, c := range r.Choices {
			mark, share := cell{"-", faint}, ""
			if c.Share > 0 {
				mark, share = cell{"→", green}, fmt.Sprintf("%.0f %%", 100*c.Share)
			}
			t.row(mark, c.Backend, c.Priority, c.Weight, share, c.Model, c.Circuit, c.Why)
		}
		a.printTable(t)
		if r.Picked == "" {
			a.printf("No backend is usable.\n")
		}
	}
	return nil
}
