package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes; those above 1 are from sysexits.h. `fusebox run` passes its
// child's instead.
const (
	exitOK     = 0
	exitFailed = 1  // doctor: something is down
	exitUsage  = 64 // the command line is wrong
	exitDenied = 75 // a circuit refused: try later
	exitConfig = 78 // the configuration is wrong
)

// exitError is an error that ends the program with a code of its own.
type exitError struct {
	code int
	err  error // nil = everything has been said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith ends the program with code and says nothing more.
func exitWith(code int) error { return &exitError{code: code} }

// usagef is an error in the command line that only the command itself can see.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// reportError says on standard error what went wrong.
func (a *app) reportError(command *cobra.Command, code int, err error) {
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return
	}
	if list := configErrors(err); list != nil { // a line each, as compilers print them
		fmt.Fprintln(a.stderr, list)
		return
	}
	text := strings.TrimPrefix(err.Error(), "fusebox: ")
	fmt.Fprintf(a.stderr, "fusebox: %s\n", text)
	if code == exitUsage {
		fmt.Fprintf(a.stderr, "See '%s --help'.\n", command.CommandPath())
	}
}
