package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// ErrConfig is matched by every mistake that is found in a configuration.
var ErrConfig = errors.New("config: configuration refused")

// Position is a place in a file. Line and Column count from 1; a zero Line
// means the file as a whole.
type Position struct {
	File         string
	Line, Column int
}

// String returns "file:line:column", or the file alone.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a configuration file. It never holds a secret's value.
type Error struct {
	Position
	Path    string // of the key, as in "backends.paid.url"; "" = the file as a whole
	Problem string // what was expected, and what was found
	Do      string // what to do about it; may be ""
}

// Error returns "file:line:column: path: problem; what to do".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Position.String())
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	b.WriteString(": " + e.Problem)
	if e.Do != "" {
		b.WriteString("; " + e.Do)
	}
	return b.String()
}

// Is reports whether target is [ErrConfig].
func (e *Error) Is(target error) bool { return target == ErrConfig }

// Errors are all mistakes of one file, in the order of the file. errors.As
// finds the list and its first *[Error].
type Errors []*Error

// Error returns a line per mistake.
func (l Errors) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the mistakes one by one.
func (l Errors) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// orNil returns the sorted list as an error, or nil where there is none.
func (l Errors) orNil() error {
	if len(l) == 0 {
		return nil
	}
	slices.SortStableFunc(l, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return l
}

// shown makes a text from the file fit for a message: short, one line, quoted,
// and without what looks like a secret.
func shown(s string) string {
	const most = 60
	s = fusebox.ShortText(s)
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// didYouMean suggests the one of known that s is probably a misspelling of.
func didYouMean(s string, known []string) string {
	if len(s) > 64 {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	best, least := "", 3
	for _, k := range known {
		limit := 1 + len(k)/4
		if d := editDistance(plain(s), plain(k)); d <= limit && d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours between a and b.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
