package gateway

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Gateway is an http.Handler that serves model APIs. Make one with [New].
type Gateway struct {
	box      *fusebox.Box
	access   access
	backends []*backend
	routes   map[Dialect][]route
	patterns []string // of all routes
	retry    fusebox.Retry
	maxBody  int64
	pulse    time.Duration
	log      *slog.Logger
	observer Observer
	calls    sync.Pool // of *call
	owner    string    // of its shares
}

// route is a Route at work, as far as its backends speak one dialect.
type route struct {
	match  string
	whole  bool     // answers are held back until they are complete
	nextOn []string // codes of errors that go on to the next backend
	most   int      // attempts of one request; 0 = no bound
	tiers  []*tier  // the backends by priority, the first choice first
}

// New returns a Gateway, or everything that is wrong with cfg.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &Gateway{box: cfg.Box, access: newAccess(cfg.Token, cfg.Listen), retry: cfg.Retry, maxBody: cfg.MaxBody, pulse: cfg.KeepAlive,
		log: cfg.Logger, observer: cfg.Observer, routes: map[Dialect][]route{}, owner: rand.Text()}
	if g.retry == (fusebox.Retry{}) {
		g.retry = fusebox.DefaultRetry()
	}
	if g.maxBody == 0 {
		g.maxBody = defaultMaxBody
	}
	if g.pulse == 0 {
		g.pulse = defaultKeepAlive
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	byName := map[string]*backend{}
	for _, b := range cfg.Backends {
		made, err := newBackend(b, cfg.Box, g.retry)
		if err != nil {
			return nil, err
		}
		g.backends = append(g.backends, made)
		byName[b.Name] = made
	}
	for _, r := range cfg.routes() {
		made := route{match: r.Match, whole: r.Answers == answersWhole, nextOn: r.NextOn, most: r.Attempts}
		if made.nextOn == nil {
			made.nextOn = []string{contextTooLong}
		}
		for _, d := range []Dialect{OpenAI, Anthropic} {
			if made.tiers = tiersOf(r.Backends, byName, d); len(made.tiers) > 0 {
				g.routes[d] = append(g.routes[d], made)
			}
		}
		g.patterns = append(g.patterns, r.Match)
	}
	return g, nil
}

// TakeOver goes on where another gateway is, which this one is to replace: what
// backends of the same names have under way counts against their limits, and
// routes that are as they were go on sharing out requests by weight. Call it
// before this gateway serves; the other one may still.
func (g *Gateway) TakeOver(other *Gateway) {
	g.owner = other.owner
	for _, b := range g.backends {
		if i := slices.IndexFunc(other.backends, func(o *backend) bool { return o.Name == b.Name }); i >= 0 {
			b.takeOver(other.backends[i])
		}
	}
	for d, routes := range g.routes {
		for i := range min(len(routes), len(other.routes[d])) {
			routes[i].takeOver(&other.routes[d][i])
		}
	}
}

// Run does what goes on beside the requests until ctx ends: it checks the
// backends that have an [ActiveCheck], and keeps limits of the fleet. Processes
// whose stores are one, and give shares, check each backend once among them, and
// divide the limits; nil = this process is alone.
func (g *Gateway) Run(ctx context.Context, store fusebox.Sharer) {
	var all sync.WaitGroup
	for _, b := range g.backends {
		if b.Check.Every > 0 {
			all.Go(func() { b.checker().keep(ctx, g, store) })
		}
		if b.Limit.Fleet && store != nil {
			all.Go(func() { b.limiter.keep(ctx, store, b.Name, g.owner) })
		}
	}
	all.Wait()
}

// Close closes the connections to backends that are not in use.
func (g *Gateway) Close() {
	for _, b := range g.backends {
		b.transport.CloseIdleConnections()
	}
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, problem := endpointOf(r)
	c := g.begin(w, r, e)
	defer c.end()
	if err := g.access.check(r); err != nil {
		c.refuse(err)
		return
	}
	if problem != nil {
		c.refuse(problem)
		return
	}
	if e.list {
		c.listModels()
		return
	}
	if err := c.readRequest(); err != nil {
		c.refuse(err)
		return
	}
	if stuck := c.checkRun(); stuck != nil {
		c.refuse(stuck)
		return
	}
	c.serve()
}

// begin begins a call, which its end gives back.
func (g *Gateway) begin(w http.ResponseWriter, r *http.Request, e endpoint) *call {
	c, _ := g.calls.Get().(*call)
	if c == nil {
		c = &call{dog: new(watchdog)}
	}
	c.g, c.w, c.r, c.endpoint, c.began = g, w, r, e, time.Now()
	c.control = http.NewResponseController(w)
	c.dog.attend(c.control)
	return c
}

// routeFor returns the first route that matches a model and has backends of the
// dialect, with those alone. It has no tiers if there is none.
func (g *Gateway) routeFor(d Dialect, model string) route {
	for _, r := range g.routes[d] {
		if model == "" || matches(r.match, model) {
			return r
		}
	}
	return route{}
}
