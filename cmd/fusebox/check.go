package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/gateway"
)

// backendCheck is what asking a backend for its models showed.
type backendCheck struct {
	OK      bool    `json:"ok"`
	Latency float64 `json:"latency_ms"`
	Error   string  `json:"error,omitempty"`
}

// checkBackends asks every backend for its models and records what that showed.
func (a *app) checkBackends(ctx context.Context, c *config.Config, store fusebox.Store) (map[string]backendCheck, error) {
	if len(c.Backends) == 0 {
		return nil, nil
	}
	if err := missingSecrets(c); err != nil {
		return nil, err
	}
	box, err := a.newBox(c, c.Policy, store)
	if err != nil {
		return nil, err
	}
	g, err := a.newGateway(c, box, gateway.Observer{}, getter)
	if err != nil {
		return nil, errors.Join(err, box.Close(ctx))
	}
	defer g.Close()
	checks := map[string]backendCheck{}
	for _, checked := range g.Check(ctx) {
		checks[checked.Backend] = backendCheck{
			OK: checked.Err == nil, Latency: float64(checked.Elapsed.Microseconds()) / 1000, Error: fusebox.ErrorText(checked.Err),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := box.Close(ctx); err != nil {
		return nil, fmt.Errorf("what the checks showed is not recorded: %w", err)
	}
	return checks, nil
}

// addChecks adds what the checks showed. A backend that did not answer is no
// news to its circuit before the policy says so, but it is to whoever asked.
func (d *diagnosis) addChecks(checks map[string]backendCheck) {
	for i := range d.Backends {
		if check, found := checks[d.Backends[i].Backend]; found {
			d.Backends[i].Check = &check
			d.Down = d.Down || !check.OK
		}
	}
}
