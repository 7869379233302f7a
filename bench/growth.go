package main

import (
	"fmt"
	"io"
)

// growth measures how what a call costs grows with what there is.
func (f *findings) growth(out io.Writer) error {
	fmt.Fprint(out, "## Growth\n\nWhat a call costs while something else grows: medians of all rounds, CPU time where it is nanoseconds. \"×\" is to the first line.\n\n")
	for _, measure := range []func(io.Writer) error{f.growingCircuits, f.growingWorkers, f.growingMarks, f.growingLog, f.growingBodies} {
		if err := measure(out); err != nil {
			return err
		}
	}
	return nil
}

// grown is a table of what something costs while something else grows.
type grown struct {
	title   string   // what is seen, for the picture
	says    string   // what is seen, before the table
	grows   string   // the head of the sizes
	columns []string // what each costs, and in what unit
	lines   []*sized
}

// sized is one line of such a table.
type sized struct {
	size int
	run  func() (costs []float64, err error) // measures each column once
	took []spread                            // by column
}

// measure lets the lines take turns.
func (g *grown) measure(rounds int) error {
	var failed error
	var runs []func()
	for _, l := range g.lines {
		l.took = make([]spread, len(g.columns))
		runs = append(runs, func() {
			if failed != nil {
				return
			}
			costs, err := l.run()
			if err != nil {
				failed = fmt.Errorf("%s %s: %w", thousands(int64(l.size)), g.grows, err)
				return
			}
			for i, cost := range costs {
				l.took[i].add(cost)
			}
		})
	}
	interleave(rounds, runs)
	return failed
}

// print writes the table.
func (g *grown) print(out io.Writer) {
	head := []string{g.grows}
	for _, c := range g.columns {
		head = append(head, c, "middle half", "×")
	}
	t := newTable(head...)
	for _, l := range g.lines {
		row := []string{thousands(int64(l.size))}
		for i, s := range l.took {
			row = append(row, short(s.median()), s.middle(), short(s.median()/g.lines[0].took[i].median()))
		}
		t.row(row...)
	}
	fmt.Fprintf(out, "%s\n\n", g.says)
	t.print(out)
}

// grow measures and prints a table.
func (f *findings) grow(out io.Writer, g *grown) error { return f.growIn(f.rounds, out, g) }

// growIn does so in that many rounds.
func (f *findings) growIn(rounds int, out io.Writer, g *grown) error {
	if err := g.measure(f.times(rounds)); err != nil {
		return err
	}
	f.show(out, g)
	return nil
}

// show prints a table that was measured, and keeps it for the picture.
func (f *findings) show(out io.Writer, g *grown) {
	g.print(out)
	f.grown = append(f.grown, g)
}

// sizes are the sizes of a table: all, or in a trial the smallest two.
func (f *findings) sizes(all ...int) []int {
	if f.trial {
		return all[:2]
	}
	return all
}

// nanos is the CPU time of one of n calls.
func nanos(n int, f func()) float64 {
	m := measure(func() (int, int) { f(); return n, 0 })
	return float64(m.cpu) / float64(m.calls)
}
