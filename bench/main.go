// Bench measures fusebox beside its peers and prints Markdown:
//
//	go run .                  everything
//	go run . circuits stores  these parts only
//	go run . -picture ../docs/growth.svg growth
//
// The figures of one table come from one run, in which the libraries take turns.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

type part struct {
	name string
	run  func(*findings, io.Writer) error
}

// parts are what can be asked for, in the order in which they run.
var parts = []part{
	{"circuits", (*findings).circuits},
	{"stores", (*findings).stores},
	{"redis", (*findings).redis},
	{"fleet", (*findings).fleet},
	{"gateway", (*findings).gateway},
	{"mcp", (*findings).mcpGuards},
	{"growth", (*findings).growth},
	{"budgets", (*findings).budgets},
}

func main() {
	rounds := flag.Int("rounds", 5, "measurements of which the median is taken")
	picture := flag.String("picture", "", "the `FILE` to draw what grows to, as SVG")
	flag.Usage = usage
	flag.Parse()
	if flag.Arg(0) == child {
		runChild(flag.Args()[1:])
		return
	}
	wanted := slices.Clone(parts)
	if flag.NArg() > 0 {
		wanted = slices.DeleteFunc(wanted, func(p part) bool { return !slices.Contains(flag.Args(), p.name) })
	}
	if flag.NArg() > 0 && len(wanted) != flag.NArg() {
		usage()
		os.Exit(2)
	}
	f := newFindings(*rounds)
	describeMachine(os.Stdout, *rounds)
	for _, p := range wanted {
		if err := p.run(f, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, p.name+":", err)
			os.Exit(1)
		}
	}
	if *picture != "" {
		if err := f.drawTo(*picture); err != nil {
			fmt.Fprintln(os.Stderr, "picture:", err)
			os.Exit(1)
		}
	}
}

func usage() {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [-rounds n] [-picture file] [%s]...\n", strings.Join(names, "|"))
}

// circuits is the part about circuits alone.
func (f *findings) circuits(out io.Writer) error {
	fmt.Fprint(out, "## Circuits\n\nNanoseconds per call, the medians of all rounds, CPU time of the whole process beside wall time; \"ratio\" is to the first line. On all cores: as many callers as cores share one circuit.\n\n")
	for _, w := range workloads {
		f.speedTables(out, w)
	}
	if err := f.bytesTable(out); err != nil {
		return err
	}
	if err := f.oddCaseTable(out); err != nil {
		return err
	}
	f.summaryTable(out)
	return nil
}
