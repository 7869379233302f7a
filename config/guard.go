package config

import (
	"fmt"
	"os"

	"github.com/fusebox-go/fusebox"
)

// Guard returns what is done around a circuit besides its policy. It can serve
// as the root package's Config.Guard.
func (c *Config) Guard(circuit string) fusebox.Guard {
	s := c.Settings(circuit)
	return fusebox.Guard{
		Identify:   c.Thrash.identify(circuit),
		ThrashOff:  c.Thrash.Off || !s.Thrash,
		StopRun:    s.OnOpen == OnOpenStopRun,
		PerAttempt: s.Unit == UnitAttempt,
	}
}

// identify returns the arguments that make a tool's call what it is, by the
// most exact entry that matches; none = all.
func (t Thrash) identify(circuit string) []string {
	var arguments []string
	best, found := pattern{}, false
	for text, a := range t.Identify {
		p := compilePattern(text)
		if p.match(circuit) && (!found || p.compare(best) > 0) {
			arguments, best, found = a, p, true
		}
	}
	return arguments
}

// Rules returns the settings as the root package takes them. It reads the file
// with the texts, and says what is wrong with it.
func (t Thrash) Rules() (fusebox.Thrash, error) {
	rules := fusebox.DefaultThrash()
	rules.Repeats, rules.SameError, rules.StopAfter = t.Repeats, t.SameError, t.StopAfter
	rules.StuckAfterFailures, rules.Forget, rules.Ignore = t.StuckAfterFailures, t.Forget, t.Ignore
	if t.Texts == "" {
		return rules, nil
	}
	b, err := os.ReadFile(t.Texts)
	if err != nil {
		return rules, fmt.Errorf("thrash.texts: %w", err)
	}
	if rules.Texts, err = fusebox.ParseTexts(string(b)); err != nil {
		return rules, fmt.Errorf("thrash.texts: %s: %w", t.Texts, err)
	}
	return rules, nil
}
