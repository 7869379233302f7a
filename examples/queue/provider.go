package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// provider is a server on this machine that summarises documents. While it is
// degraded, a call hangs and then fails.
type provider struct {
	name     string
	answers  time.Duration // how long a good answer takes
	hangs    time.Duration // how long a bad one takes
	degraded atomic.Bool
	hung     atomic.Int64 // calls that came while it was degraded
	listener net.Listener
	server   http.Server
}

// start begins to serve on a free port of this machine.
func (p *provider) start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.listener, p.server.Handler = l, p
	go p.server.Serve(l)
	return nil
}

// stop ends it. One that was not started is at its end.
func (p *provider) stop() error { return p.server.Close() }

func (p *provider) url() string { return "http://" + p.listener.Addr().String() }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.degraded.Load() {
		p.hung.Add(1)
		pass(r, p.hangs)
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	pass(r, p.answers)
	fmt.Fprintf(w, "a summary of %s", r.URL.Path)
}

// pass lets time pass, while the caller waits.
func pass(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}
