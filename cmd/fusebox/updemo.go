package main

import (
	"context"
	"strings"
	"sync"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/demo"
)

// openDemo serves two scripted backends and puts them where those of the
// configuration would be.
func (s *server) openDemo(ctx context.Context) error {
	d, err := demo.Start(context.WithoutCancel(ctx)) // until the gateway has drained
	if err != nil {
		return err
	}
	s.demo = d
	var names []string
	for _, b := range d.Backends {
		s.config.Backends = append(s.config.Backends, config.Backend{Name: b.Name, URL: b.URL, Dialect: config.OpenAI})
		names = append(names, b.Name)
	}
	s.config.Routes = []config.Route{{Match: "*", Backends: config.InOrder(names...), Answers: config.AnswersPass}}
	return nil
}

// policies are the configuration's; the demo's backends have one of their own,
// with cooldowns short enough to watch.
func (s *server) policies(circuit string) fusebox.Policy {
	if s.demo == nil || !strings.HasPrefix(circuit, "model/demo-") {
		return s.config.Policy(circuit)
	}
	p := demo.Policy()
	p.Observe = s.config.Mode == config.ModeObserve
	return p
}

// callDemo calls the gateway now and then, so that there is something to see.
func (s *server) callDemo(ctx context.Context) {
	token, _ := s.config.Gateway.Token.Value() // it was there at the start
	ctx, cancel := context.WithCancel(ctx)
	var caller sync.WaitGroup
	caller.Go(func() { demo.Call(ctx, s.front.url(), token) })
	s.stopCalls = func() {
		cancel()
		caller.Wait()
	}
}
