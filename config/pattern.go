package config

import (
	"cmp"
	"errors"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// pattern matches names. A * stands for any text, slashes too; everything else
// for itself.
type pattern struct {
	text    string
	parts   []string // what stands between the stars
	literal int      // length of all parts: the longer, the more exact
}

func compilePattern(s string) pattern {
	p := pattern{text: s, parts: strings.Split(s, "*")}
	for _, part := range p.parts {
		p.literal += len(part)
	}
	return p
}

// circuitPattern reads a circuit's name or pattern in its one spelling.
func circuitPattern(s string) (pattern, error) {
	if strings.Contains(s, "**") {
		return pattern{}, errors.New("has two stars in a row: one * crosses slashes already")
	}
	name, err := fusebox.CanonicalName(s)
	var refused *fusebox.NameError
	if errors.As(err, &refused) {
		return pattern{}, errors.New(refused.Reason)
	}
	return compilePattern(name), err
}

func (p pattern) match(name string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if len(p.parts) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range p.parts[1 : len(p.parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return true
}

// compare orders patterns from the least to the most exact: by the length of
// the literal part; of equals the one with fewer stars is more exact.
func (p pattern) compare(q pattern) int {
	if c := cmp.Compare(p.literal, q.literal); c != 0 {
		return c
	}
	return cmp.Compare(len(q.parts), len(p.parts))
}
