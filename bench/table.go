package main

import (
	"fmt"
	"io"
	"strings"
)

// table is a Markdown table.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, the first column to the left and all others to the
// right, with a blank line after it.
func (t *table) print(w io.Writer) {
	rule := make([]string, len(t.head))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	for _, row := range append([][]string{t.head, rule}, t.rows...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(w)
}
