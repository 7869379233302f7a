package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/admin"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/demo"
	"github.com/fusebox-go/fusebox/gateway"
)

// How long things may take that up waits for.
const (
	drainTime = 10 * time.Second // requests in flight, once it was told to stop
	cutTime   = 2 * time.Second  // clients to be told, when that is over
	flushTime = 5 * time.Second  // evidence on its way to the store
)

// upFlags are the flags of up.
type upFlags struct {
	listen, admin string
	demo, observe bool
	drain         time.Duration
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Serve the model gateway, and metrics, health and the API beside it",
		Long: `Serve the model gateway, and beside it an admin listener with metrics, health and
what is known of the circuits. The first line on standard output names both
addresses.

Without a configuration file it serves what it finds: an Ollama on its usual
port, and OpenAI and Anthropic where their keys are in the environment. Where
there is nothing, or with --demo, two scripted backends fail in realistic ways.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.up(c.Context(), &f) },
	}
	c.Flags().StringVar(&f.listen, "listen", "", "`ADDRESS` of the gateway; port 0 picks a free one (default 127.0.0.1:4040)")
	c.Flags().StringVar(&f.admin, "admin", "", "`ADDRESS` of the admin listener (default 127.0.0.1:4041)")
	c.Flags().BoolVar(&f.demo, "demo", false, "serve two scripted backends, and call them")
	c.Flags().BoolVar(&f.observe, "observe", false, "decide and record, but refuse nothing")
	c.Flags().DurationVar(&f.drain, "drain", drainTime, "how long requests in flight may go on after it was told to stop")
	return c
}

// ballast is never touched, and so takes up addresses only. It lets the heap
// grow by as much again before it is collected: little of a gateway's lives and
// much is garbage, so that under load Go's least heap of 4 MB would be collected
// dozens of times a second.
const ballast = 8 << 20

func (a *app) up(ctx context.Context, f *upFlags) error {
	defer runtime.KeepAlive(make([]byte, ballast))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := a.prepare(ctx, f)
	if err != nil {
		return err
	}
	err = s.serve(ctx)
	stop() // a second signal ends it at once
	return errors.Join(err, s.stop(f.drain))
}

// server is the process that up runs.
type server struct {
	a         *app
	flags     *upFlags
	config    *config.Config
	demo      *demo.Demo // nil unless it is one
	stopCalls func()     // of the demo
	store     fusebox.Store
	box       *fusebox.Box
	gateway   current
	observer  gateway.Observer
	stopRun   func()      // of the gateway
	read      fileVersion // of the configuration file
	admin     *admin.Handler
	front     listening
	back      listening
	failed    chan error
	requests  context.Context // parent of those of all requests
	cut       context.CancelCauseFunc
}

// listening is a listener and the server on it.
type listening struct {
	net.Listener
	server *http.Server
}

// url is where it can be reached from this machine.
func (l *listening) url() string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "http://" + l.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// prepare makes everything ready and listens. What it returns must be stopped.
func (a *app) prepare(ctx context.Context, f *upFlags) (*server, error) {
	c, err := a.upConfig(f)
	if err != nil {
		return nil, err
	}
	read, _ := versionOf(c.File) // a file that is gone by now is taken up when it is back
	s := &server{a: a, flags: f, config: c, read: read, failed: make(chan error, 2), stopCalls: func() {}, stopRun: func() {}}
	s.requests, s.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.stop(0))
	}
	return s, nil
}

func (s *server) open(ctx context.Context) (err error) {
	c := s.config
	if len(c.Backends) == 0 {
		if err := s.openDemo(ctx); err != nil {
			return err
		}
	}
	if s.store, err = s.a.openStore(ctx); err != nil {
		return err
	}
	if s.box, err = s.a.newBox(c, s.policies, s.store); err != nil {
		return err
	}
	token, err := getter(c.Admin.Token)
	if err != nil {
		return err
	}
	s.admin, err = admin.New(admin.Config{Box: s.box, Store: s.store, Token: token, Version: readBuildInfo().Version, Logger: s.a.log})
	if err != nil {
		return err
	}
	count := func(r gateway.Request) {
		s.admin.CountRequest(admin.Request{Outcome: r.Outcome, Elapsed: r.Elapsed, FirstToken: r.FirstToken})
	}
	s.observer = gateway.Observer{Request: count}
	made, err := s.a.newGateway(c, s.box, s.observer, getter)
	if err != nil {
		return err
	}
	s.gateway.Store(made)
	if s.front, err = s.listen(c.Gateway.Listen, &s.gateway, "--listen"); err != nil {
		return err
	}
	if s.back, err = s.listen(c.Admin.Listen, s.admin, "--admin"); err != nil {
		return err
	}
	s.run(made)
	if s.demo != nil {
		s.callDemo(ctx)
	}
	return nil
}

// run has the gateway do what goes on beside its requests, until stopRun.
func (s *server) run(g *gateway.Gateway) {
	ctx, cancel := context.WithCancel(context.Background())
	store, _ := s.store.(fusebox.Sharer)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.Run(ctx, store)
	}()
	s.stopRun = func() {
		cancel()
		<-ended
	}
}

// upConfig is the configuration with the flags of up on top, fit to serve.
func (a *app) upConfig(f *upFlags) (*config.Config, error) {
	c, err := a.servedConfig(!f.demo)
	if err != nil {
		return nil, err
	}
	switch {
	case f.demo:
		c.Backends, c.Routes = nil, nil
	case c.File != "" && len(c.Backends) == 0:
		return nil, noBackends(c.File)
	}
	if err := f.onTopOf(c); err != nil {
		return nil, err
	}
	return c, missingSecrets(c)
}

// onTopOf has the flags say what the configuration says otherwise.
func (f *upFlags) onTopOf(c *config.Config) error {
	for _, l := range []struct {
		flag, value string
		listener    *config.Listener
	}{{"--listen", f.listen, &c.Gateway}, {"--admin", f.admin, &c.Admin}} {
		if l.value == "" {
			continue
		}
		l.listener.Listen = l.value
		if err := l.listener.Validate(); err != nil {
			return &exitError{exitConfig, fmt.Errorf("%s: %w", l.flag, err)}
		}
	}
	if f.observe {
		c.Mode = config.ModeObserve
	}
	return nil
}

func noBackends(file string) error {
	return &exitError{exitConfig, fmt.Errorf("%s names no backends to serve: add backends and routes, or see it work with --demo", file)}
}

// listen begins to serve h on an address.
func (s *server) listen(address string, h http.Handler, flag string) (listening, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return listening{}, fmt.Errorf("cannot listen on %s: %w; choose another with %s, port 0 picks a free one", address, err, flag)
	}
	on := listening{l, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return s.requests }}}
	go func() {
		if err := on.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving on %s: %w", l.Addr(), err)
		}
	}()
	return on, nil
}

// serve says where it listens and waits for the end.
func (s *server) serve(ctx context.Context) error {
	hangup := make(chan os.Signal, 1)
	if s.config.File != "" {
		signal.Notify(hangup, syscall.SIGHUP) // before anybody knows that it is up
		defer signal.Stop(hangup)
	}
	if err := s.announce(); err != nil {
		return err
	}
	s.welcome()
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { s.watchConfig(ctx, hangup) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// announce prints the first line: programs read the addresses from it.
func (s *server) announce() error {
	if s.a.json {
		type addresses struct {
			Gateway string `json:"gateway"`
			Admin   string `json:"admin"`
		}
		return s.a.printJSON(addresses{s.front.url(), s.back.url()})
	}
	_, err := fmt.Fprintf(s.a.stdout, "fusebox is up: gateway %s, admin %s\n", s.front.url(), s.back.url())
	return err
}

// stop drains and closes whatever was opened: requests first, then the
// evidence that they gave, then the store.
func (s *server) stop(drain time.Duration) error {
	var errs []error
	s.stopCalls()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	for _, l := range []listening{s.front, s.back} {
		if l.server != nil && l.server.Shutdown(ctx) != nil {
			s.a.log.Warn("requests were cut off", "address", l.Addr().String(), "after", drain)
			s.cutOff(l.server)
		}
	}
	s.cut(nil)
	s.stopRun()
	if g := s.gateway.Load(); g != nil {
		g.Close()
	}
	if s.demo != nil {
		errs = append(errs, s.demo.Close())
	}
	if s.box != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		if err := s.box.Close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("evidence was not recorded: %w", err))
		}
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// cutOff ends the requests that are still under way; the gateway tells their
// clients, if they read.
func (s *server) cutOff(l *http.Server) {
	s.cut(gateway.ErrStopped)
	ctx, cancel := context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	if l.Shutdown(ctx) != nil {
		l.Close()
	}
}
