package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

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
	names := d.texts(n, "JSON pointer or argument name")
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
