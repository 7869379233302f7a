package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
)

// canonicalNames returns the circuits' names as they are stored, each once.
func canonicalNames(given []string) ([]string, error) {
	var names []string
	for _, g := range given {
		name, err := fusebox.CanonicalName(g)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// completeCircuits offers the store's circuits to the shell.
func (a *app) completeCircuits(c *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
	store, err := a.openStore(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer store.Close()
	var names []string
	for name, err := range store.Circuits(c.Context()) {
		if err == nil && strings.HasPrefix(name, typed) && !slices.Contains(given, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeHold offers open and closed before the circuits.
func (a *app) completeHold(c *cobra.Command, given []string, typed string) ([]string, cobra.ShellCompDirective) {
	if lift, _ := c.Flags().GetBool("lift"); !lift && len(given) == 0 {
		return []string{"open", "closed"}, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeCircuits(c, given, typed)
}
