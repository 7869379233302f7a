package main

import (
	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/gateway"
)

// newBox makes the box that the configuration describes, with policies that
// are its own or come from it.
func (a *app) newBox(c *config.Config, policy func(circuit string) fusebox.Policy, store fusebox.Store) (*fusebox.Box, error) {
	box, err := fusebox.New(fusebox.Config{
		Policy: policy, Guard: c.Guard, Thrash: c.Thrash, Retry: c.Retry,
		Store: store, Worker: workerName(c), Observe: c.Mode == config.ModeObserve, Logger: a.log,
	})
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return box, nil
}

// gatewayConfig is the configuration as the gateway takes it.
func (a *app) gatewayConfig(c *config.Config, box *fusebox.Box) gateway.Config {
	g := gateway.Config{
		Box: box, Token: secret(c.Gateway.Token), Listen: c.Gateway.Listen, Logger: a.log,
		Retry: c.Retry,
	}
	for _, b := range c.Backends {
		g.Backends = append(g.Backends, gatewayBackend(b))
	}
	for _, r := range c.Routes {
		g.Routes = append(g.Routes, gateway.Route{Match: r.Match, Backends: r.Backends, Answers: string(r.Answers)})
	}
	return g
}

func gatewayBackend(b config.Backend) gateway.Backend {
	return gateway.Backend{
		Name: b.Name, URL: b.URL, Dialect: gateway.Dialect(b.Dialect), Models: b.Models,
		Key: secret(b.Key), KeyName: credentialName(b.Key), ClientKey: b.ClientKey,
		Timeouts: gateway.Timeouts(b.Timeouts),
	}
}
