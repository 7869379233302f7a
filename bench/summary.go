package main

import (
	"fmt"
	"io"
)

// summaryTable puts correctness beside speed.
func (f *findings) summaryTable(out io.Writer) {
	fmt.Fprintf(out, "## At a glance\n\nCPU nanoseconds per call of one caller (under a streak; under a rate where the library has no streak), bytes per idle circuit, and how many of the odd cases it passes.\n\n")
	t := newTable("library", "success", "80 % fail", "refused", "bytes", "odd cases passed")
	for _, l := range libraries {
		row := []string{l.name}
		for _, w := range []string{"success", "80 % fail", "refused"} {
			s := f.speed(w, streak, l.name)
			if s == nil {
				s = f.speed(w, rate, l.name)
			}
			row = append(row, s.cells(s)[0])
		}
		bytes := "–"
		if b, ok := f.bytes[l.name]; ok {
			bytes = thousands(b[0])
		}
		t.row(append(row, bytes, fmt.Sprintf("%d of %d", f.passed[l.name], len(oddCases)))...)
	}
	t.print(out)
}
