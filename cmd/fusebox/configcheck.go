package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

func (a *app) configCommand() *cobra.Command {
	return group("config", "Look at the configuration", a.configCheckCommand())
}

func (a *app) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check the configuration, and print what it comes to",
		Long: `Check the configuration and print what it comes to, in words: for every kind, for
every pattern of the file and for every circuit that the store knows. Warnings
are about what is allowed but unwise. Mistakes, and secrets that cannot be had
here, are told with line and column, and the exit code is 78 then.`,
		Args: arguments(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if a.configFile != "" && a.configFile != args[0] {
					return usagef("want one file, have %s and --config %s", args[0], a.configFile)
				}
				a.configFile = args[0]
			}
			return a.checkConfig(c.Context())
		},
	}
}

// configReport is what config check finds.
type configReport struct {
	File     string          `json:"file"` // "" = none: all is built in
	OK       bool            `json:"ok"`
	Errors   []configFinding `json:"errors"`
	Warnings []configFinding `json:"warnings"`
	Circuits []configOutcome `json:"circuits"`

	machines bool // share the store
}

// configFinding is a mistake or a warning. Line 0 = not about a line.
type configFinding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Problem string `json:"problem"`
	Do      string `json:"do,omitempty"`

	text string
}

// configOutcome is what the configuration comes to for a kind, a pattern of the
// file, or a circuit that the store knows.
type configOutcome struct {
	Name   string         `json:"name"`
	Words  []string       `json:"words"`
	Policy fusebox.Policy `json:"policy"`
	thresholds
}

func (a *app) checkConfig(ctx context.Context) error {
	report := &configReport{Errors: []configFinding{}, Warnings: []configFinding{}, Circuits: []configOutcome{}}
	c, err := a.config()
	if err != nil {
		list := configErrors(err)
		if list == nil || !a.json {
			return err
		}
		report.addErrors(list)
		return errors.Join(a.printJSON(report), exitWith(exitConfig))
	}
	missing := c.MissingSecrets()
	report.addErrors(missing)
	report.File, report.OK = c.File, len(missing) == 0
	for _, w := range config.Check(c) {
		report.Warnings = append(report.Warnings, configFinding{w.File, w.Line, w.Column, w.Path, w.Problem, w.Do, w.String()})
	}
	if report.machines, err = a.sharesMachines(c); err != nil {
		a.log.Debug("the store is left out", "error", err)
	}
	for _, o := range c.Outcomes() {
		report.add(o.Name, o.Settings, 0)
	}
	known := a.knownCircuits(ctx)
	for _, name := range servedCircuits(c) {
		if _, found := known[name]; !found {
			known[name] = 0
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		report.add(name, c.Settings(name), known[name])
	}
	if !a.json {
		a.printConfigReport(report)
		return missingSecrets(c)
	}
	if !report.OK {
		return errors.Join(a.printJSON(report), exitWith(exitConfig))
	}
	return a.printJSON(report)
}

// addErrors adds the mistakes of a file.
func (r *configReport) addErrors(list config.Errors) {
	for _, e := range list {
		r.File = e.File
		r.Errors = append(r.Errors, configFinding{e.File, e.Line, e.Column, e.Path, e.Problem, e.Do, e.Error()})
	}
}

// add adds what holds for name, and a warning where workers count together what
// only one of them sees in order.
func (r *configReport) add(name string, s config.Settings, workers int) {
	r.Circuits = append(r.Circuits, configOutcome{name, s.Words(), s.Policy, thresholdsOf(s.Policy, workers, r.machines)})
	if workers < 2 || len(s.Policy.Trip) == 0 || slices.ContainsFunc(s.Policy.Trip, func(t fusebox.Trip) bool { return !t.IsStreak() }) {
		return
	}
	w := configFinding{File: r.File, Path: "circuits." + name,
		Problem: fmt.Sprintf("%d workers report to %s, and a streak over several workers counts the order in which their calls end: one success between two failures resets it", workers, name),
		Do:      "use failures in a window instead, or beside it: {count: 3, within: 60m}"}
	w.text = w.Problem + "; " + w.Do
	r.Warnings = append(r.Warnings, w)
}

// servedCircuits lists the circuits that the configuration itself tells of: of
// the models that backends map to, of their keys, and of tool servers.
func servedCircuits(c *config.Config) []string {
	var names []string
	add := func(name string) {
		if name, err := fusebox.CanonicalName(name); err == nil {
			names = append(names, name)
		}
	}
	for _, b := range c.Backends {
		for _, model := range b.Models {
			add(circuitPrefix(b.Name) + model)
		}
		if b.Check.Every > 0 {
			add(checkCircuit(b.Name))
		}
		if !b.Key.IsZero() {
			add(credentialCircuit(b.Key))
		}
	}
	for _, s := range c.MCP.Servers {
		add("server/" + s.Name)
	}
	return names
}

// knownCircuits returns the store's circuits, and how many workers use each. The configuration can be checked without a store too: then there are
// none.
func (a *app) knownCircuits(ctx context.Context) map[string]int {
	workers := map[string]int{}
	store, err := a.openStore(ctx)
	if err != nil {
		a.log.Debug("the store's circuits are left out", "error", err)
		return workers
	}
	defer store.Close()
	fleet := newFleet(nil)
	if p, ok := store.(fusebox.Presence); ok {
		announced, err := p.Workers(ctx)
		if err != nil {
			a.log.Warn("reading the store", "error", err)
			return workers
		}
		fleet = newFleet(announced)
	}
	for name, err := range store.Circuits(ctx) {
		if err != nil {
			a.log.Warn("reading the store", "error", err)
			continue
		}
		if fusebox.Kind(name) == "run" {
			continue // no configuration speaks of it
		}
		log, err := readLog(ctx, store, name, time.Now())
		if err != nil {
			a.log.Warn("reading the log", "circuit", name, "error", err)
		}
		fleet.reported(name, log.reporters)
		workers[name] = fleet.count(name)
	}
	return workers
}

func (a *app) printConfigReport(r *configReport) {
	switch {
	case r.File == "":
		a.printf("no configuration file: all is built in\n")
	case r.OK:
		a.printf("%s is in order\n", r.File)
	default:
		a.printf("%s names secrets that cannot be had here\n", r.File)
	}
	for _, c := range r.Circuits {
		a.printf("\n%s\n  %s\n", a.paint(bold, printable(c.Name)), strings.Join(c.Words, "\n  "))
		if words := c.thresholds.words(); words != "" {
			a.printf("  %s\n", words)
		}
	}
	if len(r.Warnings) > 0 {
		a.printf("\n")
	}
	for _, w := range r.Warnings {
		a.printf("%s %s\n", a.paint(yellow, "warning:"), printable(w.text))
	}
}
