package main

import (
	"fmt"
	"os"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/gateway"
)

// newBox makes the box that the configuration describes, with policies that
// are its own or come from it.
func (a *app) newBox(c *config.Config, policy func(circuit string) fusebox.Policy, store fusebox.Store) (*fusebox.Box, error) {
	box, err := fusebox.New(fusebox.Config{
		Policy: policy, Guard: c.Guard, Thrash: c.Thrash, Retry: c.Retry,
		Store: store, Report: reportEvery(store), Worker: processName(c), Version: readBuildInfo().Version, Observe: c.Mode == config.ModeObserve, Logger: a.log,
	})
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return box, nil
}

// processName is who reports, for a process that lives long: others of the
// same host may report beside it.
func processName(c *config.Config) string { return fmt.Sprintf("%s:%d", workerName(c), os.Getpid()) }

// newGateway makes the gateway that the configuration describes; read makes
// what reads a secret.
func (a *app) newGateway(c *config.Config, box *fusebox.Box, observer gateway.Observer, read secretReader) (*gateway.Gateway, error) {
	token, err := read(c.Gateway.Token)
	if err != nil {
		return nil, err
	}
	g := gateway.Config{Box: box, Token: token, Listen: c.Gateway.Listen, Logger: a.log, Retry: c.Retry, Observer: observer}
	for _, b := range c.Backends {
		served, err := gatewayBackend(b, read)
		if err != nil {
			return nil, err
		}
		g.Backends = append(g.Backends, served)
	}
	for _, r := range c.Routes {
		g.Routes = append(g.Routes, gatewayRoute(r))
	}
	made, err := gateway.New(g)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return made, nil
}

func gatewayRoute(r config.Route) gateway.Route {
	out := gateway.Route{Match: r.Match, Answers: string(r.Answers), NextOn: r.NextOn, Attempts: r.Attempts}
	for _, b := range r.Backends {
		out.Backends = append(out.Backends, gateway.RouteBackend(b))
	}
	return out
}

func gatewayBackend(b config.Backend, read secretReader) (gateway.Backend, error) {
	key, err := read(b.Key)
	if err != nil {
		return gateway.Backend{}, fmt.Errorf("backend %s: %w", b.Name, err)
	}
	return gateway.Backend{
		Name: b.Name, URL: b.URL, Dialect: gateway.Dialect(b.Dialect), Models: b.Models,
		Key: key, KeyName: credentialName(b.Key), ClientKey: b.ClientKey,
		Timeouts: gateway.Timeouts(b.Timeouts), Limit: gateway.Limit(b.Limit),
		Check: gateway.ActiveCheck(b.Check),
	}, nil
}
