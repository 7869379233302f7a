package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain lets the tests' program be its own children, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child {
		runChild(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// trialOf makes the tables of a part as small as can be, and returns what it
// printed. Every row must have been measured.
func trialOf(t *testing.T, f *findings, name string) string {
	t.Helper()
	for _, p := range parts {
		if p.name != name {
			continue
		}
		var out strings.Builder
		if err := p.run(f, &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "| – |") {
			t.Errorf("something was not measured in\n%s", &out)
		}
		return out.String()
	}
	t.Fatalf("no part %q", name)
	return ""
}

// rows counts a printed table's lines that begin so.
func rows(text, begin string) int {
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+begin) {
			n++
		}
	}
	return n
}

func newTrial() *findings {
	f := newFindings(1)
	f.trial = true
	return f
}

// TestMCPTable measures every way over both transports, a call of each kind
// that is answered as it must be, and judges the budgets.
func TestMCPTable(t *testing.T) {
	f := newTrial()
	text := trialOf(t, f, "mcp")
	for begin, want := range map[string]int{
		mcpDirect + " |": 2, mcpBytes + " |": 2, mcpGuard + " |": 2, mcpDenied + " |": 2, "relay through ": 4,
	} {
		if have := rows(text, begin); have != want {
			t.Errorf("%d rows of %s, want %d, in\n%s", have, begin, want, text)
		}
	}
	if budgets := trialOf(t, f, "budgets"); rows(budgets, "MCP guard") != 4 {
		t.Errorf("want four of the guard's in\n%s", budgets)
	}
}

// TestGrowthTables measures the smallest sizes of everything that grows.
func TestGrowthTables(t *testing.T) {
	f := newTrial()
	text := trialOf(t, f, "growth")
	for _, g := range f.grown {
		if rows(text, thousands(int64(g.lines[1].size))+" |") == 0 {
			t.Errorf("no second line of %s in\n%s", g.title, text)
		}
		for _, l := range g.lines {
			for i, s := range l.took {
				if len(s) != 1 || s[0] < 0 {
					t.Errorf("%s, %d: %s was measured as %v", g.title, l.size, g.columns[i], s)
				}
			}
		}
	}
}
