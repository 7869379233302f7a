// Command fusebox guards what agents call: model gateways, tools, sessions.
//
// main.go starts it, root.go holds the flags that every command has, exit.go
// the exit codes, output.go how things are printed, store.go how the store is
// opened; every other file is one command.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
