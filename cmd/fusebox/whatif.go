package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

// whatIf is the policy that a command tries out, of replay, simulate and tune:
// the flags on top of a bare one, or of the configuration that --config names.
// There is nothing built in for a kind, and no configuration is looked for.
type whatIf struct {
	a     *app
	flags config.PolicyFlags
	base  fusebox.Policy
	file  *config.Config // nil = without --config
}

// whatIf adds the policy flags to c.
func (a *app) whatIf(c *cobra.Command, base fusebox.Policy) *whatIf {
	w := &whatIf{a: a, base: base}
	w.flags.Register(c.Flags())
	return w
}

// read checks the flags, and reads the configuration if --config names one.
func (w *whatIf) read(c *cobra.Command) error {
	p, err := w.flags.Policy(w.base)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if w.a.configFile != "" {
		if w.file, err = w.a.config(); err != nil {
			return err
		}
	}
	if c.Flags().Changed("cooldown-calls") && p.Cooldown.Calls == 0 && p.Cooldown.After == 0 {
		w.a.warnf("--cooldown-calls 0: without a cooldown the next call after opening is the probe already, so the dependency gets no rest")
	}
	return nil
}

// policy is the policy of a circuit.
func (w *whatIf) policy(circuit string) (fusebox.Policy, error) {
	base := w.base
	if w.file != nil {
		base = w.file.Policy(circuit)
	}
	p, err := w.flags.Policy(base)
	if err != nil {
		return p, &exitError{exitUsage, fmt.Errorf("%s: %w", circuit, err)}
	}
	return p, nil
}

// warnf says something on standard error that does not stop the command.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintf(a.stderr, "fusebox: warning: "+format+"\n", args...)
}
