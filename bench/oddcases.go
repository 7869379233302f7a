package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// oddCase is something that happens to circuits in the field and that the mean
// time per call does not show. Each is really run against each library, in
// virtual time.
type oddCase struct {
	name string
	want string
}

// oddLimit is how many failures open the circuit of a trial.
const oddLimit = 3

var oddCases = []oddCase{
	{"probe panics", "the caller sees the panic, calls are refused at once, and the circuit heals later"},
	{"probe calls Goexit", "the slot comes back and the circuit heals"},
	{"probe hangs", "another call may probe within five minutes, and what the first one returns later changes nothing"},
	{"50 callers at half-open", "one gets in"},
	{"late success while open", "neither phase nor deadline changes"},
	{"late success at half-open", "the probe decides, not it"},
	{"late failure at half-open", "the probe decides, not it"},
	{"cancelled probe", "nothing is decided and the next call may probe"},
	{"ten cancels while closed", "they are no failures, and no successes that hide some"},
	{"a failure every 20 s", "a streak opens the circuit, however slow it is"},
}

// oddCaseTable runs every case against every library, each in a process of its
// own, since some die of it.
func (f *findings) oddCaseTable(out io.Writer) error {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "trials")
	if made, err := exec.Command("go", "test", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("building the trials: %w\n%s", err, made)
	}
	fmt.Fprintf(out, "### Odd cases\n\nEach is run against each library, in virtual time, with a streak of %d (where a library has none: its share of failures) and a cooldown of %v. An empty cell passes.\n\n", oddLimit, cooldown)
	verdicts := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	for _, l := range libraries {
		for _, o := range oddCases {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				v := tryApart(binary, l, o)
				mu.Lock()
				defer mu.Unlock()
				verdicts[l.name+o.name] = v
			})
		}
	}
	wg.Wait()
	head := []string{"case"}
	for _, l := range libraries {
		head = append(head, l.name)
	}
	f.passed = map[string]int{}
	t := newTable(head...)
	for _, o := range oddCases {
		row := []string{fmt.Sprintf("%s: %s", o.name, o.want)}
		for _, l := range libraries {
			v := verdicts[l.name+o.name]
			if v == "" {
				f.passed[l.name]++
			}
			row = append(row, v)
		}
		t.row(row...)
	}
	t.print(out)
	return nil
}

// verdictMark begins the line in which a trial says what it found.
const verdictMark = "verdict: "

// tryApart makes one trial in a process of its own.
func tryApart(binary string, l library, o oddCase) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	said, _ := exec.CommandContext(ctx, binary, "-test.run", "^TestOddCases$", "-library", l.name, "-case", o.name).Output()
	for line := range strings.Lines(string(said)) {
		if v, ok := strings.CutPrefix(line, verdictMark); ok {
			return strings.TrimSpace(v)
		}
	}
	if ctx.Err() != nil {
		return "hangs"
	}
	return "the program dies"
}
