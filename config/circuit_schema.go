package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

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
	nested := func(n *node, name string, known keys) {
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
			nested(n, "cooldown", keys{
				"after":  func(n *node) { l.after = d.duration(n, 0) },
				"calls":  func(n *node) { l.calls = d.whole(n, 0, most) },
				"jitter": func(n *node) { l.jitter = d.fraction(n, 0, 1) },
				"growth": func(n *node) { l.growth = d.fraction(n, 1, 100) },
				"max":    func(n *node) { l.max = d.duration(n, 0) },
			})
		},
		"probe": func(n *node) {
			nested(n, "probe", keys{
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
	for _, p := range sorted(present) {
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
func sorted(present map[string]*node) []keyed {
	out := make([]keyed, 0, len(present))
	for key, n := range present {
		out = append(out, keyed{key, n})
	}
	slices.SortFunc(out, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	return out
}
