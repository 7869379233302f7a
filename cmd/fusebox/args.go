package main

import (
	"math"

	"github.com/spf13/cobra"
)

// anyNumber is for commands that take as many arguments as there are.
const anyNumber = math.MaxInt

// arguments wants from least to most arguments, and else shows how the command
// is called.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if n := len(args); n < least || n > most {
			return usagef("want %s %s, have %s", c.Parent().CommandPath(), c.Use, countOf(n, "argument"))
		}
		return nil
	}
}
