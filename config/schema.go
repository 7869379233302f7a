package config

import (
	"fmt"
	"regexp"
	"strings"

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
		"quorum":   func(n *node) { set(&c.Quorum, d.whole(n, 1, fusebox.MaxQuorum)) },
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
	if fusebox.HostOf(*s) != *s {
		d.want(n, "a name that does not end in a colon and a number", "a process adds its number so, and what stands before it is the host that a quorum counts: write "+shown(fusebox.HostOf(*s)))
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
