package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Config says what a Gateway serves. See [New].
type Config struct {
	Box      *fusebox.Box  // required: it holds the circuits
	Backends []Backend     // at least one
	Routes   []Route       // the first that matches a request's model serves it; none = one route over all backends
	Retry    fusebox.Retry // of a visit to one backend; its budget is each backend's

	// Token returns what clients must show, as "Authorization: Bearer TOKEN"
	// or "X-Api-Key: TOKEN". nil, or an empty one, asks for none. The token is
	// never passed on.
	Token func() string

	// Listen is the address the gateway is served on. On a loopback address,
	// or where it is empty, requests must name a loopback host or that of
	// Listen, so that no web page can reach the gateway by rebinding a name.
	Listen string

	MaxBody int64        // bytes of a request's body that are kept for a replay; beyond that 413. 0 = 32 MiB
	Logger  *slog.Logger // nil = quiet

	// KeepAlive is how often a client whose stream is held back is sent a
	// comment, so that nothing on the way takes the connection for dead.
	// 0 = 10 s.
	KeepAlive time.Duration

	Observer Observer
}

const defaultMaxBody = 32 << 20

// Backend is one model API.
type Backend struct {
	Name    string // as it stands in circuits; one segment, in lower case
	URL     string // where the dialect's own paths begin: "https://api.example.com/v1"
	Dialect Dialect

	// Key returns the credential that the backend is given, at every request;
	// nil = none. KeyName is the credential's name, never the key itself:
	// backends that share it share the circuit credential/KEYNAME.
	Key     func() string
	KeyName string

	// ClientKey passes the client's own credential on, in place of Key. A
	// refusal of it is the client's affair, and a 429 throttles that key alone.
	ClientKey bool

	// Models maps the client's model names, or patterns of them in which *
	// stands for anything, to the backend's. The most exact one wins; a name
	// that none matches is passed on as it is.
	Models map[string]string

	Timeouts Timeouts
	Limit    Limit
	Check    ActiveCheck
}

// Route is an ordered list of backends for the models it matches.
type Route struct {
	Match    string         // a model's name, or a pattern in which * stands for anything
	Backends []RouteBackend // the first choice first; see InOrder

	// Answers is how they are handed on. "pass", or "": as they come; a break
	// after the first content is told. "whole": held back until complete, up to
	// 32 MiB, so that any break is mended elsewhere.
	Answers string

	// NextOn are the codes of errors that are the request's own fault and that
	// another backend may yet not mind: it is asked next. nil stands for
	// context_length_exceeded, which is understood also where a backend has no
	// code for it.
	NextOn []string

	// Attempts is how many one request makes at most, over all backends of the
	// route; 0 = what [fusebox.Retry] allows at each.
	Attempts int
}

// RouteBackend is a backend's place in a route. Backends of one priority share
// the requests by weight; those of the next are asked when none of them answers.
type RouteBackend struct {
	Name     string
	Priority int // 1 or more, the lowest is asked first; it does not fall along the list
	Weight   int // its share of the requests, relative to the others of its priority; 1 or more
}

// InOrder gives each backend a priority of its own, the first choice first.
func InOrder(names ...string) []RouteBackend {
	list := make([]RouteBackend, len(names))
	for i, name := range names {
		list[i] = RouteBackend{Name: name, Priority: i + 1, Weight: 1}
	}
	return list
}

// routes returns the configured routes, or one over all backends.
func (c *Config) routes() []Route {
	if len(c.Routes) > 0 {
		return c.Routes
	}
	names := make([]string, len(c.Backends))
	for i := range c.Backends {
		names[i] = c.Backends[i].Name
	}
	return []Route{{Match: "*", Backends: InOrder(names...)}}
}

// check returns every mistake in c, joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("gateway: "+format, args...)) }
	if c.Box == nil {
		bad("Config.Box is missing")
	}
	if len(c.Backends) == 0 {
		bad("there is no backend")
	}
	if c.MaxBody < 0 {
		bad("MaxBody: want 0 or more bytes, have %d", c.MaxBody)
	}
	if c.KeepAlive < 0 {
		bad("KeepAlive: want a duration above 0, have %v", c.KeepAlive)
	}
	names := map[string]bool{}
	for i := range c.Backends {
		b := &c.Backends[i]
		for _, problem := range b.problems() {
			bad("backend %q: %s", b.Name, problem)
		}
		if names[b.Name] {
			bad("backend %q: there are two of this name", b.Name)
		}
		if leadsTo(b.URL, c.Listen) {
			bad("backend %q: url: %s is this gateway's own address, so that requests would go round in a circle; give the provider's", b.Name, b.URL)
		}
		names[b.Name] = true
	}
	for _, r := range c.Routes {
		for _, problem := range r.problems(names) {
			bad("route %q: %s", r.Match, problem)
		}
	}
	if err := c.Retry.Validate(); err != nil {
		bad("%w", err)
	}
	return errors.Join(errs...)
}

// leadsTo reports whether a URL's server is the one that listens at an address,
// as far as can be told without asking for names.
func leadsTo(address, listen string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" || port != cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]) {
		return false
	}
	return u.Hostname() == host || isHere(u.Hostname()) && (host == "" || isHere(host))
}

// isHere reports whether a host's name or address stands for this machine.
func isHere(host string) bool {
	ip := net.ParseIP(host)
	return isLoopback(host) || ip != nil && ip.IsUnspecified()
}

func (b *Backend) problems() (problems []string) {
	if name, err := fusebox.CanonicalName(b.Name); err != nil || name != b.Name || strings.ContainsAny(name, "/*") || len(name) > 60 {
		problems = append(problems, "name: want one word of at most 60 bytes in lower case, without / and *")
	}
	u, err := url.Parse(b.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		problems = append(problems, "url: want http:// or https:// and a host, up to where the dialect's own paths begin, as https://api.example.com/v1")
	} else if u.User != nil {
		problems = append(problems, "url: must hold no password; give the credential as key")
	}
	if b.Dialect != OpenAI && b.Dialect != Anthropic {
		problems = append(problems, fmt.Sprintf("dialect: want openai or anthropic, have %q", b.Dialect))
	}
	switch {
	case b.ClientKey && b.Key != nil:
		problems = append(problems, "key: either the client's or one of its own, not both")
	case (b.Key == nil) != (b.KeyName == ""):
		problems = append(problems, "key: Key and KeyName go together")
	case b.KeyName != "":
		if _, err := fusebox.CanonicalName("credential/" + b.KeyName); err != nil {
			problems = append(problems, "key: "+err.Error())
		}
	}
	if t := b.Timeouts; min(t.Connect, t.Headers, t.FirstToken, t.Idle, t.Total) < 0 {
		problems = append(problems, "timeouts: want durations above 0")
	}
	if l := b.Limit; l.Concurrent < 0 || l.PerMinute < 0 || l.PerMinute > MaxPerMinute {
		problems = append(problems, fmt.Sprintf("limit: want 0 or more calls at once, and 0 to %d a minute", MaxPerMinute))
	}
	if c := b.Check; c.Every < 0 || c.Timeout < 0 || c.Path != "" && !strings.HasPrefix(c.Path, "/") {
		problems = append(problems, "check: want a path that begins with /, and durations of 0 or more")
	}
	for from, to := range b.Models {
		if from == "" || to == "" {
			problems = append(problems, "models: a name is empty")
		}
	}
	return problems
}

func (r *Route) problems(backends map[string]bool) (problems []string) {
	if r.Match == "" {
		problems = append(problems, `match: want a model's name or a pattern, as "*"`)
	}
	if r.Answers != "" && r.Answers != answersPass && r.Answers != answersWhole {
		problems = append(problems, fmt.Sprintf("answers: want pass or whole, have %q", r.Answers))
	}
	if r.Attempts < 0 {
		problems = append(problems, fmt.Sprintf("attempts: want 0 or more, have %d", r.Attempts))
	}
	for _, code := range r.NextOn {
		if code == "" || code != strings.ToLower(code) {
			problems = append(problems, fmt.Sprintf("next_on: want codes in lower case, have %q", code))
		}
	}
	if len(r.Backends) == 0 {
		problems = append(problems, "backends: there is none")
	}
	priority := 1
	for i, b := range r.Backends {
		if !backends[b.Name] {
			problems = append(problems, fmt.Sprintf("backends: there is no backend %q", b.Name))
		}
		if slices.ContainsFunc(r.Backends[:i], func(before RouteBackend) bool { return before.Name == b.Name }) {
			problems = append(problems, fmt.Sprintf("backends: %q stands there twice; a request visits a backend once", b.Name))
		}
		if b.Priority < priority {
			problems = append(problems, fmt.Sprintf("backends: %q has the priority %d; want at least %d", b.Name, b.Priority, priority))
		}
		if b.Weight < 1 || b.Weight > MaxWeight {
			problems = append(problems, fmt.Sprintf("backends: %q has the weight %d; want 1 to %d", b.Name, b.Weight, MaxWeight))
		}
		priority = max(priority, b.Priority)
	}
	return problems
}
