package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// most bounds counts that nothing else bounds.
const most = 100_000

// config reads the whole file.
func (d *decoder) config(n *node, c *Config) {
	var entries []circuit
	var identities []identity
	var routes *node
	d.object(n, keys{
		"store":    func(n *node) { d.store(n, &c.Store) },
		"keep":     func(n *node) { set(&c.Keep, d.duration(n, 0)) },
		"sync":     func(n *node) { set((*string)(&c.Sync), d.choice(n, string(SyncNever), string(SyncTransitions))) },
		"worker":   func(n *node) { d.worker(n, &c.Worker) },
		"quorum":   func(n *node) { set(&c.Quorum, d.whole(n, 1, 1000)) },
		"mode":     func(n *node) { set((*string)(&c.Mode), d.choice(n, string(ModeEnforce), string(ModeObserve))) },
		"gateway":  func(n *node) { d.listener(n, &c.Gateway) },
		"admin":    func(n *node) { d.listener(n, &c.Admin) },
		"circuits": func(n *node) { entries = d.circuits(n) },
		"thrash":   func(n *node) { identities = d.thrash(n, c) },
		"retry":    func(n *node) { d.retry(n, &c.Retry) },
		"backends": func(n *node) { d.backends(n, c) },
		"routes":   func(n *node) { routes = n },
		"mcp":      func(n *node) { d.mcp(n, c) },
	})
	if routes != nil { // wherever it stands, backends come first
		d.routes(routes, c, n)
	}
	c.circuits = newCircuits(entries, identities)
	d.distinctAddresses(n, c)
}

func (d *decoder) store(n *node, to *StoreURL) {
	s := d.text(n, "file:///directory or redis://host:6379/0")
	if s == nil {
		return
	}
	store, err := ParseStore(*s)
	if err != nil {
		d.fail(n, err.Error(), "")
		return
	}
	*to = store
}

func (d *decoder) worker(n *node, to *string) {
	if n.kind == text && n.text == "" {
		return // the host's name
	}
	s := d.text(n, "a name")
	if s == nil {
		return
	}
	if name, err := fusebox.CanonicalName(*s); err != nil || len(name) > 64 {
		d.want(n, "a name of at most 64 bytes without spaces", "")
		return
	}
	*to = *s
}

func (d *decoder) listener(n *node, to *Listener) {
	present := d.object(n, keys{
		"listen": func(n *node) { set(&to.Listen, d.text(n, "host:port")) },
		"token":  func(n *node) { d.secret(n, &to.Token) },
	})
	d.address(present, to)
}

// address checks a listener whose keys were read: on the key listen, since that
// is what makes a token needed.
func (d *decoder) address(present map[string]*node, l *Listener) {
	n := present["listen"]
	if n == nil || n.kind != text {
		return
	}
	withToken := *l
	if present["token"] != nil {
		withToken.Token = Secret{Env: "given"} // a bad token is reported where it stands
	}
	if err := withToken.Validate(); err != nil {
		d.fail(n, err.Error(), "for an address that others can reach add token: {env: NAME}, or listen on 127.0.0.1")
	}
}

// distinctAddresses reports two listeners on one address.
func (d *decoder) distinctAddresses(root *node, c *Config) {
	type place struct{ path, listen string }
	places := []place{{"gateway", c.Gateway.Listen}, {"admin", c.Admin.Listen}}
	for _, s := range c.MCP.Servers {
		if s.Listen != "" {
			places = append(places, place{s.path, s.Listen})
		}
	}
	for i, p := range places {
		for _, before := range places[:i] {
			if p.listen != before.listen || strings.HasSuffix(p.listen, ":0") {
				continue
			}
			at, given := d.at[p.path+".listen"]
			if !given {
				at = d.at[before.path+".listen"]
			}
			d.errs = append(d.errs, &Error{Position: at, Path: p.path + ".listen",
				Problem: fmt.Sprintf("want an address of its own, have %s, which is that of %s", shown(p.listen), before.path),
				Do:      "give one of them another port"})
		}
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secret reads {env: NAME} or {file: PATH}. What stands there instead may be
// the secret itself, so no message shows it.
func (d *decoder) secret(n *node, to *Secret, words ...string) {
	form := strings.Join(append([]string{"{env: NAME} or {file: PATH}"}, words...), " or ")
	if n.kind != mapping {
		d.fail(n, "want "+form+", have something else",
			"put the secret into an environment variable or a file and name that: a configuration file is no place for it")
		return
	}
	for _, p := range n.pairs {
		hidden := *p.key
		hidden.path = n.path
		switch {
		case p.key.text != "env" && p.key.text != "file":
			d.fail(&hidden, "want the key env or file, have another", "name the environment variable that holds the secret: {env: NAME}")
			return
		case p.value.kind != text:
			d.fail(p.value, "want the name of a variable or file, have something else", "name the environment variable that holds the secret: {env: NAME}")
			return
		}
	}
	present := d.object(n, keys{
		"env": func(n *node) {
			if !variable.MatchString(n.text) {
				d.fail(n, "want the name of an environment variable (letters, digits, _), have something else",
					"name the variable, without $; if this is the secret itself, move it into a variable")
				return
			}
			to.Env = n.text
		},
		"file": func(n *node) { set(&to.File, d.text(n, "the path of a file")) },
	})
	if len(n.pairs) == 0 || len(present) > 1 {
		d.fail(n, fmt.Sprintf("want %s, have %d of them", form, len(present)), "name one place")
	}
}

// circuits reads the settings of circuits by name or pattern.
func (d *decoder) circuits(n *node) []circuit {
	var out []circuit
	first := map[string]*node{}
	d.entries(n, "a map of circuits by name or pattern, as in tool/crm/*: {…}", func(key, value *node) {
		p, err := circuitPattern(key.text)
		if err != nil {
			d.fail(key, "want a circuit's name or pattern such as tool/crm/*, have one that "+err.Error(), "")
		} else if before := first[p.text]; before != nil {
			d.duplicate(key, before)
		} else {
			first[p.text] = key
		}
		out = append(out, circuit{p, d.circuit(value), value.path})
	})
	return out
}

// circuit reads one level of a circuit's settings.
func (d *decoder) circuit(n *node) layer {
	var l layer
	where := map[string]*node{}
	nested := func(n *node, known keys) {
		name := n.path[strings.LastIndexByte(n.path, '.')+1:]
		for key, v := range d.object(n, known) {
			where[name+"."+key] = v
		}
	}
	present := d.object(n, keys{
		"trip": func(n *node) { l.trip = d.trips(n) },
		"on_class": func(n *node) {
			classes := []fusebox.Class{}
			if d.list(n, "a list of failure classes", func(item *node) { d.class(item, &classes) }) {
				l.onClass = &classes
			}
		},
		"faster_than": func(n *node) { l.fasterThan = d.duration(n, 0) },
		"overdue":     func(n *node) { l.overdue = d.duration(n, 0) },
		"distinct":    func(n *node) { l.distinct = d.boolean(n) },
		"cooldown": func(n *node) {
			nested(n, keys{
				"after":  func(n *node) { l.after = d.duration(n, 0) },
				"calls":  func(n *node) { l.calls = d.whole(n, 0, most) },
				"jitter": func(n *node) { l.jitter = d.fraction(n, 0, 1) },
				"growth": func(n *node) { l.growth = d.fraction(n, 1, 100) },
				"max":    func(n *node) { l.max = d.duration(n, 0) },
			})
		},
		"probe": func(n *node) {
			nested(n, keys{
				"concurrent":  func(n *node) { l.concurrent = d.whole(n, 1, 1000) },
				"close_after": func(n *node) { l.closeAfter = d.whole(n, 1, 1000) },
				"attempts":    func(n *node) { l.attempts = d.whole(n, 0, 100) },
				"lease":       func(n *node) { l.lease = d.duration(n, 0) },
			})
		},
		"unit": func(n *node) { l.unit = (*Unit)(d.choice(n, string(UnitVisit), string(UnitAttempt))) },
		"on_open": func(n *node) {
			l.onOpen = (*OnOpen)(d.choice(n, string(OnOpenDegrade), string(OnOpenStopRun)))
		},
		"guard":  func(n *node) { l.guard = d.onOff(n) },
		"thrash": func(n *node) { l.thrash = d.onOff(n) },
		"mode": func(n *node) {
			if word := d.choice(n, string(ModeEnforce), string(ModeObserve)); word != nil {
				observe := *word == string(ModeObserve)
				l.observe = &observe
			}
		},
	})
	if where["cooldown.after"] != nil && where["cooldown.calls"] != nil {
		d.fail(where["cooldown.calls"], "want a time (after) or a number of refused calls (calls), have both", "leave one of them out")
		return l
	}
	for name, v := range present {
		where[name] = v
	}
	d.policyErrors(l.alone(), where, n)
	return l
}

// policyErrors reports what is wrong with a policy, each mistake where its
// field stands.
func (d *decoder) policyErrors(p fusebox.Policy, where map[string]*node, whole *node) {
	for _, e := range split(p.Validate()) {
		at := where[e.Field]
		if at == nil {
			at = whole
		}
		d.fail(at, e.Want, "")
	}
}

// split takes the mistakes apart that Validate joined.
func split(err error) []*fusebox.PolicyError {
	var out []*fusebox.PolicyError
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		var p *fusebox.PolicyError
		if errors.As(e, &p) {
			out = append(out, p)
		}
	}
	return out
}

func (d *decoder) class(n *node, to *[]fusebox.Class) {
	names := make([]string, len(fusebox.Classes))
	for i, c := range fusebox.Classes {
		names[i] = string(c)
	}
	word := d.choice(n, names...)
	if word == nil {
		return
	}
	if slices.Contains(*to, fusebox.Class(*word)) {
		d.fail(n, fmt.Sprintf("want each class once, have %q again", *word), "leave it out")
		return
	}
	*to = append(*to, fusebox.Class(*word))
}

// onOff reads a switch. YAML's true and false are other words for it; one is enough.
func (d *decoder) onOff(n *node) *bool {
	word := d.choice(n, "on", "off")
	if word == nil {
		return nil
	}
	on := *word == "on"
	return &on
}

const tripForm = "a rule: {streak: 3}, {count: 3, within: 60m}, {count: 5, of: 10, within: 60s}, " +
	"{rate: 0.5, within: 60s, calls: 20} or {slow: 0.5, limit: 10s, within: 60s, calls: 20}"

// trips reads the rules that open a circuit; an empty list is no circuit.
func (d *decoder) trips(n *node) *[]fusebox.Trip {
	trips := []fusebox.Trip{}
	if !d.list(n, "a list of rules, as in [{streak: 3}]", func(item *node) {
		if t := d.trip(item); t != nil {
			trips = append(trips, *t)
		}
	}) {
		return nil
	}
	return &trips
}

func (d *decoder) trip(n *node) *fusebox.Trip {
	if n.kind != mapping {
		d.want(n, tripForm, "")
		return nil
	}
	errs := len(d.errs)
	var count, of, calls int
	var ratio float64
	var within, limit time.Duration
	whole := func(to *int) func(*node) {
		return func(n *node) { set(to, d.whole(n, 1, most)) }
	}
	share := func(n *node) { set(&ratio, d.fraction(n, 0, 1)) }
	present := d.object(n, keys{
		"streak": whole(&count), "count": whole(&count), "of": whole(&of), "calls": whole(&calls),
		"rate": share, "slow": share,
		"within": func(n *node) { set(&within, d.duration(n, time.Millisecond)) },
		"limit":  func(n *node) { set(&limit, d.duration(n, time.Millisecond)) },
	})
	rule := ""
	for _, name := range []string{"streak", "count", "rate", "slow"} {
		if present[name] == nil {
			continue
		}
		if rule != "" {
			d.fail(n, fmt.Sprintf("want one rule, have %s and %s in one", rule, name), "write two rules: [{…}, {…}]")
			return nil
		}
		rule = name
	}
	if rule == "" {
		if len(d.errs) == errs {
			d.want(n, tripForm, "say streak, count, rate or slow")
		}
		return nil
	}
	needed := map[string][]string{"streak": nil, "count": {"within"}, "rate": {"within", "calls"}, "slow": {"limit", "within", "calls"}}[rule]
	for _, name := range needed {
		d.required(n, present, name, "a rule has one of the forms "+strings.TrimPrefix(tripForm, "a rule: "))
	}
	for _, p := range d.sorted(present) {
		if name := p.key; name != rule && !slices.Contains(needed, name) && !(rule == "count" && name == "of") {
			d.fail(p.node, fmt.Sprintf("want no %s beside %s", name, rule), "leave it out")
		}
	}
	if len(d.errs) > errs {
		return nil
	}
	var t fusebox.Trip
	switch rule {
	case "streak":
		t = fusebox.Streak(count)
	case "count":
		t = fusebox.Count(count, within).Of(of)
	case "rate":
		t = fusebox.Rate(ratio, within, calls)
	case "slow":
		t = fusebox.Slow(ratio, limit, within, calls)
	}
	where := map[string]*node{}
	for name, v := range present {
		where["trip."+name] = v
	}
	d.policyErrors(fusebox.Policy{Trip: []fusebox.Trip{t}, Probe: fusebox.Probe{Concurrent: 1, CloseAfter: 1}}, where, n)
	if len(d.errs) > errs {
		return nil
	}
	return &t
}

type keyed struct {
	key  string
	node *node
}

// sorted returns what object returned, in the order of names.
func (d *decoder) sorted(present map[string]*node) []keyed {
	out := make([]keyed, 0, len(present))
	for key, n := range present {
		out = append(out, keyed{key, n})
	}
	slices.SortFunc(out, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	return out
}

// thrash reads when a run is going in circles, and what identifies its calls.
func (d *decoder) thrash(n *node, c *Config) (identities []identity) {
	if n.kind == text {
		if c.ThrashOff = n.text == "off"; !c.ThrashOff {
			d.want(n, "a map, or off", "")
		}
		return nil
	}
	t := &c.Thrash
	d.object(n, keys{
		"repeats": func(n *node) {
			if n.kind == number && (n.text == "1" || n.text == "0") {
				d.want(n, "2 or more", "some calls fail once and heal: 3 is a good number; thrash: off switches it off")
				return
			}
			set(&t.Repeats, d.whole(n, 2, most))
		},
		"same_error": func(n *node) {
			if n.kind == number && n.text == "1" {
				d.want(n, "2 or more, or 0 for never", "")
				return
			}
			set(&t.SameError, d.whole(n, 0, most))
		},
		"stop_after":           func(n *node) { set(&t.StopAfter, d.whole(n, 0, most)) },
		"stuck_after_failures": func(n *node) { set(&t.StuckAfterFailures, d.whole(n, 0, most)) },
		"forget":               func(n *node) { set(&t.Forget, d.duration(n, time.Second)) },
		"texts":                func(n *node) { set(&c.texts, d.text(n, "the path of a file with templates")) },
		"ignore":               func(n *node) { t.Ignore = d.arguments(n) },
		"identify":             func(n *node) { identities = d.identify(n) },
	})
	return identities
}

func (d *decoder) identify(n *node) []identity {
	var out []identity
	first := map[string]*node{}
	d.entries(n, "a map of tools, as in tool/crm/lookup: [/id]", func(key, value *node) {
		p, err := circuitPattern(key.text)
		switch before := first[p.text]; {
		case err != nil:
			d.fail(key, "want a tool's circuit such as tool/crm/lookup, have one that "+err.Error(), "")
		case before != nil:
			d.duplicate(key, before)
		default:
			first[p.text] = key
		}
		out = append(out, identity{p, d.arguments(value)})
	})
	return out
}

// arguments reads names of arguments and JSON pointers to them.
func (d *decoder) arguments(n *node) []string {
	names := d.texts(n, "argument's name or JSON pointer")
	for _, item := range n.items {
		if item.kind != text || !strings.HasPrefix(item.text, "/") {
			continue
		}
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(item.text); strings.Contains(rest, "~") {
			d.fail(item, "want a JSON pointer, have "+shown(item.text), "in a pointer ~ is written ~0, and / inside a name ~1")
		}
	}
	return names
}

func (d *decoder) retry(n *node, r *fusebox.Retry) {
	present := d.object(n, keys{
		"attempts": func(n *node) { set(&r.Attempts, d.whole(n, 1, 100)) },
		"base":     func(n *node) { set(&r.Base, d.duration(n, 0)) },
		"max":      func(n *node) { set(&r.Max, d.duration(n, 0)) },
		"wait":     func(n *node) { set(&r.Wait, d.duration(n, 0)) },
		"budget": func(n *node) {
			d.object(n, keys{
				"ratio":      func(n *node) { set(&r.Budget.Ratio, d.fraction(n, 0, 1)) },
				"per_minute": func(n *node) { set(&r.Budget.PerMinute, d.whole(n, 0, most)) },
			})
		},
	})
	switch {
	case r.Max >= r.Base:
	case present["max"] != nil && present["base"] != nil:
		d.want(present["max"], fmt.Sprintf("at least the base (%v)", r.Base), "raise it")
	case present["max"] != nil:
		r.Base = r.Max
	default:
		r.Max = r.Base
	}
}

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

func (d *decoder) required(n *node, present map[string]*node, name, do string) {
	if present[name] != nil {
		return
	}
	for _, p := range n.pairs {
		if present[p.key.text] == nil && didYouMean(p.key.text, []string{name}) != "" {
			return // misspelt, and reported so
		}
	}
	d.fail(n, "want the key "+name+", have none", do)
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
				set((*string)(&r.Answers), d.choice(n, string(AnswersPass), string(AnswersWhole), string(AnswersSplice)))
			},
		})
		if item.kind == mapping || item.kind == null {
			d.required(item, present, "match", `say which models it serves: match: "*"`)
			d.required(item, present, "backends", "name them, most wanted first: backends: [local, paid]")
		}
		c.Routes = append(c.Routes, r)
	})
}

// routeBackends reads the backends of a route: each known, each once.
func (d *decoder) routeBackends(n *node, c *Config) []string {
	var known, out []string
	for _, b := range c.Backends {
		known = append(known, b.Name)
	}
	ok := d.list(n, "a list of backends", func(item *node) {
		s := d.text(item, "a backend's name")
		if s == nil {
			return
		}
		name, _ := fusebox.CanonicalName(*s)
		switch {
		case !slices.Contains(known, name):
			do := didYouMean(*s, known)
			if do == "" {
				do = "describe it under backends:"
			}
			d.fail(item, "want one of the backends ("+strings.Join(known, ", ")+"), have "+shown(*s), do)
		case slices.Contains(out, name):
			d.fail(item, "want each backend once in a route, have "+shown(*s)+" again", "leave it out: retries are said with retry:")
		default:
			out = append(out, name)
		}
	})
	if ok && len(n.items) == 0 {
		d.want(n, "at least one backend", "name them, most wanted first: backends: [local, paid]")
	}
	return out
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
		"url":    func(n *node) { set(&s.URL, d.url(n)) },
		"listen": func(n *node) { set(&s.Listen, d.text(n, "host:port")) },
		"token":  func(n *node) { d.secret(n, &s.Token) },
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
