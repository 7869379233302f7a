package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// segment reads a name that becomes one segment of circuits' names.
func (d *decoder) segment(n *node, what string) string {
	name, err := fusebox.CanonicalName(n.text)
	var refused *fusebox.NameError
	switch {
	case errors.As(err, &refused):
		d.fail(n, "want "+what+", have one that "+refused.Reason, "")
	case strings.ContainsAny(name, "/*"):
		d.fail(n, "want "+what+" without / and *, have "+shown(n.text), "it becomes one segment of circuits' names")
	case len(name) > 64:
		d.fail(n, "want "+what+" of at most 64 bytes, have a longer one", "")
	}
	return name
}

func (d *decoder) backends(n *node, c *Config) {
	first := map[string]*node{}
	d.entries(n, "a map of backends by name", func(key, value *node) {
		name := d.segment(key, "a backend's name")
		if before := first[name]; before != nil {
			d.duplicate(key, before)
		} else {
			first[name] = key
		}
		b := Backend{Name: name, path: value.path}
		d.backend(value, &b)
		c.Backends = append(c.Backends, b)
	})
}

func (d *decoder) backend(n *node, b *Backend) {
	present := d.object(n, keys{
		"url":     func(n *node) { set(&b.URL, d.backendURL(n)) },
		"dialect": func(n *node) { set((*string)(&b.Dialect), d.choice(n, string(OpenAI), string(Anthropic))) },
		"key": func(n *node) {
			if n.kind == text && n.text == "client" {
				b.ClientKey = true
				return
			}
			d.secret(n, &b.Key, "client (the client's own)")
		},
		"models": func(n *node) { b.Models = d.models(n) },
		"limit":  func(n *node) { d.limit(n, &b.Limit) },
		"check":  func(n *node) { d.activeCheck(n, &b.Check) },
		"timeouts": func(n *node) {
			limit := func(to *time.Duration) func(*node) {
				return func(n *node) { set(to, d.duration(n, time.Millisecond)) }
			}
			t := &b.Timeouts
			d.object(n, keys{"connect": limit(&t.Connect), "headers": limit(&t.Headers),
				"first_token": limit(&t.FirstToken), "idle": limit(&t.Idle), "total": limit(&t.Total)})
		},
	})
	if n.kind != mapping && n.kind != null {
		return
	}
	d.required(n, present, "url", `say where it is: url: "http://127.0.0.1:11434/v1"`)
	d.required(n, present, "dialect", "say which API it speaks: dialect: openai, or anthropic")
}

func (d *decoder) limit(n *node, l *Limit) {
	present := d.object(n, keys{
		"concurrent": func(n *node) { set(&l.Concurrent, d.whole(n, 1, most)) },
		"per_minute": func(n *node) { set(&l.PerMinute, d.whole(n, 1, most)) },
		"by": func(n *node) {
			by := d.choice(n, "process", "fleet")
			l.Fleet = by != nil && *by == "fleet"
		},
	})
	if present["by"] != nil && present["concurrent"] == nil && present["per_minute"] == nil {
		d.fail(n, "want the key concurrent or per_minute beside by, have none", "say what is limited: {per_minute: 600, by: fleet}")
	}
}

// activeCheck reads how a backend is checked: an empty map is all that is
// built in.
func (d *decoder) activeCheck(n *node, c *ActiveCheck) {
	*c = DefaultActiveCheck
	d.object(n, keys{
		"every": func(n *node) { set(&c.Every, d.duration(n, time.Second)) },
		"path": func(n *node) {
			const form = "a path after the backend's url, as /models"
			if set(&c.Path, d.text(n, form)); !strings.HasPrefix(c.Path, "/") || strings.ContainsAny(c.Path, "?# \\") {
				d.want(n, form, "begin it with /, without ? and #")
			}
		},
		"timeout": func(n *node) { set(&c.Timeout, d.duration(n, time.Millisecond)) },
		"probe":   func(n *node) { set(&c.Probe, d.boolean(n)) },
	})
}

// paths of the dialects, which a backend's URL must end before.
var dialectPaths = []string{"/chat/completions", "/completions", "/responses", "/embeddings", "/models", "/messages", "/messages/count_tokens"}

// url reads the address of an HTTP server. A password in it is never shown.
func (d *decoder) url(n *node) *string {
	s := d.text(n, "a URL such as https://api.example.com/v1")
	if s == nil {
		return nil
	}
	u, err := url.Parse(*s)
	problem, do := "", ""
	switch {
	case err != nil:
		problem, do = "want a URL such as https://api.example.com/v1, have something that is none", ""
	case u.User != nil:
		problem, do = "want a URL without a user and password, have one with them", "name the secret with key: {env: NAME}"
	case u.Scheme != "http" && u.Scheme != "https":
		problem, do = "want a URL that begins with http:// or https://, have "+shown(*s), ""
	case u.Hostname() == "":
		problem, do = "want a URL with a host, have "+shown(*s), ""
	case u.RawQuery != "" || u.Fragment != "":
		problem, do = "want a URL without ? and #, have one with them", "leave that part out"
	case !validPort(u):
		problem, do = "want a port from 1 to 65535, have "+shown(u.Port()), ""
	}
	if problem != "" {
		d.fail(n, problem, do)
		return nil
	}
	return s
}

// backendURL reads a URL that the dialect's own paths are added to.
func (d *decoder) backendURL(n *node) *string {
	s := d.url(n)
	if s == nil {
		return nil
	}
	trimmed := strings.TrimRight(*s, "/")
	for _, p := range dialectPaths {
		if strings.HasSuffix(trimmed, p) {
			d.fail(n, "want a URL that ends where the dialect's paths begin, have one that ends with "+p, "leave "+p+" out")
			return nil
		}
	}
	return &trimmed
}

func validPort(u *url.URL) bool {
	host := u.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		l := Listener{Listen: "127.0.0.1" + host[i:]}
		return l.Validate() == nil && host[i:] != ":0"
	}
	return true
}

func (d *decoder) models(n *node) map[string]string {
	out := map[string]string{}
	d.entries(n, `a map of model names, as in {"*": llama3.2}`, func(key, value *node) {
		if key.text == "" || strings.Contains(key.text, "**") {
			d.fail(key, "want a model's name or pattern, have "+shown(key.text), "one * stands for any text")
			return
		}
		if name := d.text(value, "a model's name"); name != nil {
			out[key.text] = *name
		}
	})
	return out
}

func (d *decoder) routes(n *node, c *Config, root *node) {
	first := map[string]*node{}
	d.list(n, `a list of routes, as in [{match: "*", backends: [local]}]`, func(item *node) {
		r := Route{Answers: AnswersPass}
		present := d.object(item, keys{
			"match": func(n *node) {
				set(&r.Match, d.text(n, "a model's name or pattern"))
				if strings.Contains(r.Match, "**") {
					d.fail(n, "want a model's name or pattern, have "+shown(n.text), "one * stands for any text")
				}
				if before := first[r.Match]; before != nil && r.Match != "" {
					d.duplicate(n, before)
				}
				first[r.Match] = n
			},
			"backends": func(n *node) { r.Backends = d.routeBackends(n, c) },
			"answers": func(n *node) {
				set((*string)(&r.Answers), d.choice(n, string(AnswersPass), string(AnswersWhole)))
			},
			"attempts": func(n *node) { set(&r.Attempts, d.whole(n, 1, 100)) },
			"next_on": func(n *node) {
				r.NextOn = []string{}
				for _, code := range d.texts(n, "code of an error, as in [context_length_exceeded]") {
					r.NextOn = append(r.NextOn, strings.ToLower(code))
				}
			},
		})
		if item.kind == mapping || item.kind == null {
			d.required(item, present, "match", `say which models it serves: match: "*"`)
			d.required(item, present, "backends", "name them, most wanted first: backends: [local, paid]")
		}
		c.Routes = append(c.Routes, r)
	})
}

// maxWeight bounds the weights and priorities of a route's backends.
const maxWeight = 1000

// routeBackends reads the backends of a route: each known, each once, their
// priorities not falling.
func (d *decoder) routeBackends(n *node, c *Config) []RouteBackend {
	var known []string
	for _, b := range c.Backends {
		known = append(known, b.Name)
	}
	var out []RouteBackend
	alone := "" // the last one, where it has its priority to itself
	ok := d.list(n, "a list of backends", func(item *node) {
		b := RouteBackend{Weight: 1}
		last := 0
		if len(out) > 0 {
			last = out[len(out)-1].Priority
		}
		name, priority := item, (*node)(nil)
		if item.kind == mapping {
			var weight *node
			name = nil
			present := d.object(item, keys{
				"backend":  func(n *node) { name = n },
				"priority": func(n *node) { priority = n; set(&b.Priority, d.whole(n, 1, maxWeight)) },
				"weight":   func(n *node) { weight = n; set(&b.Weight, d.whole(n, 1, maxWeight)) },
			})
			d.required(item, present, "backend", "name it: {backend: paid, priority: 1, weight: 3}")
			if weight != nil && priority == nil {
				d.fail(weight, "want a priority beside the weight, have none", "say which it shares with others: {backend: paid, priority: 1, weight: 3}")
			}
			if name == nil {
				return
			}
		}
		if b.Name = d.routeBackend(name, known, out); b.Name == "" {
			return
		}
		switch {
		case priority == nil:
			b.Priority, alone = last+1, b.Name
		case b.Priority == 0: // not read
			return
		case b.Priority < last:
			d.fail(priority, fmt.Sprintf("want priorities that do not fall along the list, have %d after %d", b.Priority, last), "put it before those that are asked later")
			return
		case b.Priority == last && alone != "":
			d.fail(priority, fmt.Sprintf("want a priority above %d, which %s has to itself, have %d", last, alone, b.Priority),
				fmt.Sprintf("to share it, say {backend: %s, priority: %d}", alone, last))
			return
		default:
			alone = ""
		}
		out = append(out, b)
	})
	if ok && len(n.items) == 0 {
		d.fail(n, "want at least one backend, have an empty list", "name them, most wanted first: backends: [local, paid]")
	}
	return out
}

// routeBackend reads the name of a known backend that is not there yet; "" = it
// is none.
func (d *decoder) routeBackend(n *node, known []string, before []RouteBackend) string {
	s := d.text(n, "a backend's name")
	if s == nil {
		return ""
	}
	name, _ := fusebox.CanonicalName(*s)
	switch {
	case !slices.Contains(known, name):
		do := didYouMean(*s, known)
		if do == "" {
			do = "describe it under backends:"
		}
		d.fail(n, "want one of the backends ("+strings.Join(known, ", ")+"), have "+shown(*s), do)
		return ""
	case slices.ContainsFunc(before, func(b RouteBackend) bool { return b.Name == name }):
		d.fail(n, "want each backend once in a route, have "+shown(*s)+" again", "leave it out: retries are said with retry:")
		return ""
	}
	return name
}

func (d *decoder) mcp(n *node, c *Config) {
	d.object(n, keys{"servers": func(n *node) {
		first := map[string]*node{}
		d.entries(n, "a map of servers by name", func(key, value *node) {
			name := d.segment(key, "a server's name")
			if before := first[name]; before != nil {
				d.duplicate(key, before)
			} else {
				first[name] = key
			}
			s := Server{Name: name, path: value.path}
			d.server(value, &s)
			c.MCP.Servers = append(c.MCP.Servers, s)
		})
	}})
}

func (d *decoder) server(n *node, s *Server) {
	present := d.object(n, keys{
		"command": func(n *node) {
			if d.list(n, "a list: the program and its arguments", func(item *node) {
				if item.kind == text {
					s.Command = append(s.Command, item.text)
					return
				}
				d.text(item, "an argument")
			}) && (len(n.items) == 0 || n.items[0].text == "") {
				d.want(n, "a program and its arguments", "")
			}
		},
		"url":      func(n *node) { set(&s.URL, d.url(n)) },
		"listen":   func(n *node) { set(&s.Listen, d.text(n, "host:port")) },
		"token":    func(n *node) { d.secret(n, &s.Token) },
		"deadline": func(n *node) { s.Deadline = d.deadline(n) },
	})
	if n.kind != mapping && n.kind != null {
		return
	}
	d.address(present, &s.Listener)
	command, address := present["command"] != nil, present["url"] != nil
	switch {
	case command && address:
		d.fail(n, "want a command or a url, have both", "leave one of them out")
	case !command && !address:
		d.fail(n, "want a command or a url, have neither", "say command: [program, argument] or url: http://…")
	case command && present["listen"] != nil:
		d.fail(present["listen"], "want no listen beside a command", "leave it out: a command is spoken to by its standard input and output")
	}
}

// deadline reads the time limits of calls: one for all tools, or a map; 0 = none.
func (d *decoder) deadline(n *node) map[string]time.Duration {
	limits := map[string]time.Duration{}
	read := func(tool string, n *node) {
		if limit := d.duration(n, 0); limit != nil {
			limits[tool] = *limit
		}
	}
	if n.kind != mapping {
		read(AllTools, n)
		return limits
	}
	d.entries(n, "", func(key, value *node) { read(key.text, value) })
	return limits
}
