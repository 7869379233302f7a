package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

// child is the word with which this program starts itself, for what is measured
// in a process of its own.
const child = "child"

// childParts are what such a process can do.
var childParts = map[string]func(args []string) error{
	"bytes": func(args []string) error {
		l := slices.IndexFunc(libraries, func(l library) bool { return l.name == args[0] })
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		h := hold(libraries[l], rule(args[1]), n)
		fmt.Println(h.idle, h.failed, h.goroutines)
		return nil
	},
	"store":    storeLapsChild,
	"mcp":      mcpChild,
	"worker":   workerChild,
	"gang":     gangChild,
	"command":  commandChild,
	"bodies":   func([]string) error { return serveHere(bodies()) },
	"upstream": func([]string) error { return serveHere(upstream()) },
	"bare":     func(args []string) error { return serveHere(bareForwarder(args[0])) },
	"reverse":  func(args []string) error { return serveHere(reverseProxy(args[0])) },
}

func runChild(args []string) {
	if err := childParts[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startChild prepares such a process; its errors go to this one's.
func startChild(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{child}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}
