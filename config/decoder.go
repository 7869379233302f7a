package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder reads values out of the tree. Each of its readers reports what is
// wrong and returns nil then, so that reading goes on and finds every mistake.
type decoder struct {
	errs Errors
	at   map[string]Position // of every key that was read, for warnings later on
}

// set assigns what a reader returned.
func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

func (d *decoder) fail(n *node, problem, do string) {
	if n.kind == unusable {
		return // reported when the tree was built
	}
	d.errs = append(d.errs, &Error{Position: n.Position, Path: n.path, Problem: problem, Do: do})
}

// want reports that something else stands at n.
func (d *decoder) want(n *node, what, do string) {
	d.fail(n, "want "+what+", have "+n.found(), do)
}

// keys are the keys that a map may have, each with its reader.
type keys map[string]func(*node)

// object reads a map with known keys and reports any other. Nothing at all is a
// map without keys. It returns the key's nodes by name.
func (d *decoder) object(n *node, known keys) map[string]*node {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	present := map[string]*node{}
	if n.kind != mapping && n.kind != null {
		d.want(n, "a map with the keys "+strings.Join(names, ", "), "")
		return present
	}
	for _, p := range d.unique(n) {
		read, ok := known[p.key.text]
		if !ok {
			do := didYouMean(p.key.text, names)
			if do == "" {
				do = "leave it out"
			}
			d.fail(p.key, fmt.Sprintf("want one of the keys %s, have the unknown key %s", strings.Join(names, ", "), shown(p.key.text)), do)
			continue
		}
		present[p.key.text] = p.value
		d.at[p.value.path] = p.value.Position
		read(p.value)
	}
	return present
}

// unique returns the entries of a map and reports keys that stand twice.
func (d *decoder) unique(n *node) []pair {
	first := map[string]*node{}
	var out []pair
	for _, p := range n.pairs {
		if before, twice := first[p.key.text]; twice {
			d.duplicate(p.key, before)
			continue
		}
		first[p.key.text] = p.key
		out = append(out, p)
	}
	return out
}

func (d *decoder) duplicate(n, before *node) {
	d.fail(n, fmt.Sprintf("want each name once, have %s again", shown(n.text)),
		fmt.Sprintf("merge it with the one on line %d, or rename it", before.Line))
}

// entries reads a map whose keys are names that the file chooses.
func (d *decoder) entries(n *node, what string, each func(key, value *node)) {
	if n.kind != mapping && n.kind != null {
		d.want(n, what, "")
		return
	}
	for _, p := range d.unique(n) {
		d.at[p.value.path] = p.key.Position
		each(p.key, p.value)
	}
}

// list reads a list; nothing at all is an empty one. It reports whether n can
// be read as one.
func (d *decoder) list(n *node, what string, each func(*node)) bool {
	if n.kind != list && n.kind != null {
		d.want(n, what, "write it as [a, b] or as lines that begin with -")
		return false
	}
	for _, item := range n.items {
		d.at[item.path] = item.Position
		each(item)
	}
	return true
}

func (d *decoder) text(n *node, what string) *string {
	switch {
	case n.kind == number || n.kind == boolean:
		d.want(n, what, fmt.Sprintf("put it in quotes: %q", n.text))
		return nil
	case n.kind != text || n.text == "":
		d.want(n, what, "")
		return nil
	}
	return &n.text
}

// texts reads a list of distinct texts.
func (d *decoder) texts(n *node, what string) []string {
	var out []string
	d.list(n, "a list of "+what+"s", func(item *node) {
		s := d.text(item, what)
		if s == nil {
			return
		}
		if slices.Contains(out, *s) {
			d.fail(item, fmt.Sprintf("want each %s once, have %s again", what, shown(*s)), "leave it out")
			return
		}
		out = append(out, *s)
	})
	return out
}

func (d *decoder) choice(n *node, words ...string) *string {
	if n.kind == text && slices.Contains(words, n.text) {
		return &n.text
	}
	do := ""
	if n.kind == text {
		do = didYouMean(n.text, words)
	}
	d.want(n, strings.Join(words, " or "), do)
	return nil
}

func (d *decoder) boolean(n *node) *bool {
	if n.kind != boolean {
		d.want(n, "true or false", "")
		return nil
	}
	v := strings.EqualFold(n.text, "true")
	return &v
}

const durationForm = "a duration such as 500ms, 60s, 10m or 720h"

// duration reads a duration of at least least.
func (d *decoder) duration(n *node, least time.Duration) *time.Duration {
	switch n.kind {
	case number:
		if n.text != "0" {
			d.want(n, durationForm, fmt.Sprintf("say the unit: %ss for seconds", n.text))
			return nil
		}
	case text:
	default:
		d.want(n, durationForm, "")
		return nil
	}
	v, err := time.ParseDuration(n.text)
	if err != nil {
		do := "the units are ms, s, m and h"
		if days, ok := strings.CutSuffix(n.text, "d"); ok {
			if k, err := strconv.Atoi(days); err == nil && k > 0 && k < 10_000 {
				do = fmt.Sprintf("write days as hours: %dh", 24*k)
			}
		}
		d.want(n, durationForm, do)
		return nil
	}
	if v < least {
		d.want(n, fmt.Sprintf("a duration of at least %v", least), "")
		return nil
	}
	return &v
}

// whole reads a whole number between least and most.
func (d *decoder) whole(n *node, least, most int) *int {
	form := fmt.Sprintf("a whole number from %d to %d", least, most)
	if n.kind == text {
		d.want(n, form, "write it as a number, without quotes or a unit")
		return nil
	}
	v, err := strconv.Atoi(n.text)
	if n.kind != number || err != nil || v < least || v > most {
		d.want(n, form, "")
		return nil
	}
	return &v
}

// fraction reads a number between least and most.
func (d *decoder) fraction(n *node, least, most float64) *float64 {
	form := fmt.Sprintf("a number from %v to %v", least, most)
	if n.kind == text {
		d.want(n, form, "write it as a number such as 0.2, without quotes or %")
		return nil
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if n.kind != number || err != nil || math.IsNaN(v) || v < least || v > most {
		d.want(n, form, "")
		return nil
	}
	return &v
}
