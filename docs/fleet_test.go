//go:build unix

package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The cells of fleet.md's table are what its command prints with these flags.
var fleetCells = [][]string{
	{"--down-latency", "200ms"},
	{"--down-latency", "200ms", "--shared"},
	{"--down-latency", "10s"},
	{"--down-latency", "10s", "--shared"},
	{"--down-latency", "10s", "--shared", "--overdue", "2s"},
}

func TestFleetTable(t *testing.T) {
	text, err := os.ReadFile("fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("`fusebox (simulate fleet [^`]*)`").FindStringSubmatch(string(text))
	cells := fmt.Sprintf(`(?m)^\| (\d+) \|((?:[^|\n]*\|){%d})$`, len(fleetCells)) // the page has other tables
	rows := regexp.MustCompile(cells).FindAllStringSubmatch(string(text), -1)
	if command == nil || len(rows) == 0 {
		t.Fatal("no command or no rows found")
	}
	for _, row := range rows {
		for i, cell := range strings.Split(strings.TrimSuffix(row[2], "|"), "|") {
			flags := append(strings.Fields(command[1]), "--replicas", row[1], "--json")
			if got := callsBeforeOpen(t, append(flags, fleetCells[i]...)); strings.TrimSpace(cell) != strconv.Itoa(got) {
				t.Errorf("%s replicas, %v:%scalls, want %d", row[1], fleetCells[i], cell, got)
			}
		}
	}
}

// callsBeforeOpen runs a simulation and returns the calls that were in vain
// before a circuit opened.
func callsBeforeOpen(t *testing.T, args []string) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "fusebox"), args...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	var printed struct {
		Summary struct {
			Calls int `json:"calls_down_before_open"`
		}
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return printed.Summary.Calls
}
