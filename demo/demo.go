// Package demo has two scripted backends and a gentle caller, so that somebody
// new can watch circuits move without a model or a key. It is a demo: the model
// is called "demo", and every answer says that no model gave it.
//
//	caller ──2 a second──> gateway ──> demo-flaky    fails by its script, 40 s a round
//	                               └─> demo-steady   always answers
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Model is the name by which the scripted backends' model is asked for.
const Model = "demo"

// Demo is the two backends being served.
type Demo struct {
	Backends []Backend // demo-flaky, then demo-steady: the order of the route

	servers []*http.Server
}

// Backend is a scripted backend. It speaks the OpenAI dialect: chat
// completions, streamed or not, and the list of models.
type Backend struct {
	Name string
	URL  string // up to and with /v1
}

// Start serves the backends on free loopback ports until ctx ends.
func Start(ctx context.Context) (*Demo, error) {
	began := time.Now()
	return start(ctx, func() time.Duration { return time.Since(began) })
}

func start(ctx context.Context, elapsed func() time.Duration) (*Demo, error) {
	d := &Demo{}
	for _, b := range []*scripted{{name: "demo-flaky", act: func() act { return actAt(elapsed()) }}, {name: "demo-steady", act: func() act { return answers }}} {
		if err := d.serve(b); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	context.AfterFunc(ctx, func() { d.Close() })
	return d, nil
}

func (d *Demo) serve(b *scripted) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: no port for %s: %w", b.name, err)
	}
	server := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
	d.servers = append(d.servers, server)
	d.Backends = append(d.Backends, Backend{Name: b.name, URL: "http://" + listener.Addr().String() + "/v1"})
	go server.Serve(listener)
	return nil
}

// Close ends the backends at once. It is safe to call twice.
func (d *Demo) Close() error {
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Policy is a model's policy with cooldowns short enough to watch.
func Policy() fusebox.Policy {
	p := fusebox.DefaultPolicy("model")
	p.Cooldown = fusebox.Cooldown{After: 8 * time.Second, Jitter: 0.2, Growth: 1.5, Max: 15 * time.Second}
	return p
}
