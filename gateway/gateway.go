package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Gateway is an http.Handler that serves model APIs. Make one with [New].
type Gateway struct {
	box      *fusebox.Box
	access   access
	backends []*backend
	routes   []route
	retry    fusebox.Retry
	maxBody  int64
	pulse    time.Duration
	log      *slog.Logger
	observer Observer
}

// route is a Route at work.
type route struct {
	match    string
	whole    bool     // answers are held back until they are complete
	nextOn   []string // codes of errors that go on to the next backend
	backends []*backend
}

// New returns a Gateway, or everything that is wrong with cfg.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g := &Gateway{box: cfg.Box, access: newAccess(cfg.Token, cfg.Listen), retry: cfg.Retry, maxBody: cfg.MaxBody, pulse: cfg.KeepAlive,
		log: cfg.Logger, observer: cfg.Observer}
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
		made := route{match: r.Match, whole: r.Answers == answersWhole, nextOn: r.NextOn}
		if made.nextOn == nil {
			made.nextOn = []string{contextTooLong}
		}
		for _, name := range r.Backends {
			made.backends = append(made.backends, byName[name])
		}
		g.routes = append(g.routes, made)
	}
	return g, nil
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
	c := &call{g: g, w: w, r: r, control: http.NewResponseController(w), endpoint: e, began: time.Now()}
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
	if stuck := c.stuckRun(); stuck != nil {
		c.refuse(stuck)
		return
	}
	c.serve()
}

// routeFor returns the first route that matches a model and has backends of the
// dialect, with those alone. Its backends are empty if there is none.
func (g *Gateway) routeFor(d Dialect, model string) route {
	for _, r := range g.routes {
		if model != "" && !matches(r.match, model) {
			continue
		}
		all := r.backends
		r.backends = nil
		for _, b := range all {
			if b.Dialect == d {
				r.backends = append(r.backends, b)
			}
		}
		if len(r.backends) > 0 {
			return r
		}
	}
	return route{}
}
