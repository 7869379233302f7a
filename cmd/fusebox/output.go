package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// printJSON writes v to standard output as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printf writes to standard output.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.stdout, format, args...) }

// colour is the terminal's code for a colour; "" = plain.
type colour string

const (
	plain  colour = ""
	bold   colour = "\x1b[1m"
	faint  colour = "\x1b[2m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	ending        = "\x1b[0m"
)

// paint colours s, if standard output is a terminal whose user wants colours.
func (a *app) paint(c colour, s string) string {
	if c == plain || s == "" || !isTerminal(a.stdout) || os.Getenv("NO_COLOR") != "" {
		return s
	}
	return string(c) + s + ending
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// table is text in columns.
type table struct {
	rows [][]cell
}

type cell struct {
	text   string
	colour colour
}

// row adds cells: strings, or cells with a colour.
func (t *table) row(values ...any) {
	var row []cell
	for _, v := range values {
		if c, ok := v.(cell); ok {
			row = append(row, c)
			continue
		}
		row = append(row, cell{text: fmt.Sprint(v)})
	}
	t.rows = append(t.rows, row)
}

// printTable writes the table, its first row as the heading. A cell that is
// empty shows as "-".
func (a *app) printTable(t *table) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(shown(c.text)))
		}
	}
	for r, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			text, col := shown(c.text), c.colour
			if r == 0 {
				col = bold
			}
			line.WriteString(a.paint(col, text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
			}
		}
		a.printf("%s\n", line.String())
	}
}

func shown(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// printable removes what could move a terminal's cursor: names and errors come
// from outside.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// ago says how long before now t was: "12s ago".
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := now.Sub(t); d >= 0 {
		return roughly(d) + " ago"
	}
	return "in " + roughly(t.Sub(now))
}

// roughly is a duration with the precision that a person wants.
func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return withoutZeros(d.Round(time.Second))
	case d < 48*time.Hour:
		return withoutZeros(d.Round(time.Minute))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// withoutZeros is d without parts that are zero at its end: 1h, not 1h0m0s.
func withoutZeros(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
