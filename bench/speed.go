package main

import (
	"fmt"
	"io"
	"runtime"
	"time"
)

// workload is a kind of traffic.
type workload struct {
	name    string
	says    string
	results []error
	limit   int  // failures that open the circuit
	opened  bool // it is open before it is measured
	rules   []rule
}

// beyond is a limit that a circuit which is never to open does not reach: a new
// one is taken before.
const beyond = 1000

var workloads = []workload{
	{"success", "All calls succeed; the circuit is closed and opens at 5 failures (rate: at least 20 calls).",
		[]error{nil}, 5, false, rules},
	{"every call fails", fmt.Sprintf("All calls fail. The limit is %d and is never reached: a new circuit is taken before.", beyond),
		[]error{errBroken}, beyond, false, []rule{streak, count, of, rate}},
	{"80 % fail", fmt.Sprintf("Four of five calls fail, limit %d as above.", beyond),
		[]error{errBroken, errBroken, nil, errBroken, errBroken}, beyond, false, []rule{streak, count, of, rate}},
	{"refused", "The circuit is open.",
		[]error{errBroken}, 5, true, []rule{streak, rate}},
}

// lap is how long one measurement takes, about.
const lap = 12 * time.Millisecond

// subject is one library under one workload, rule and mode.
type subject struct {
	library
	workload workload
	circuits []circuit // taken one after the other
	perLap   int       // how many of them
	calls    int       // of each
	fresh    func() circuit
	cpu      spread
	wall     spread
	allocs   spread
	refused  spread // share
}

// speeds measures all libraries that have the rule.
func speeds(w workload, r rule, rounds int) (alone, together []*subject) {
	for _, l := range libraries {
		if l.open(r, w.limit) == nil {
			continue
		}
		fresh := func() circuit { return opened(l.open(r, w.limit), w) }
		alone = append(alone, prepare(l, w, fresh))
		together = append(together, prepare(l, w, fresh))
	}
	var runs []func()
	for i := range alone {
		runs = append(runs, func() { alone[i].run(1) }, func() { together[i].run(runtime.GOMAXPROCS(0)) })
	}
	interleave(rounds, runs)
	return alone, together
}

// opened opens the circuit where the workload wants that.
func opened(c circuit, w workload) circuit {
	if w.opened {
		c.loop(200, []error{errBroken})
	}
	return c
}

// prepare finds out how many calls make a lap.
func prepare(l library, w workload, fresh func() circuit) *subject {
	s := &subject{library: l, workload: w, fresh: fresh, perLap: 1, calls: beyond - 100}
	c := fresh()
	start := time.Now()
	c.loop(s.calls, w.results)
	per := max(time.Since(start)/time.Duration(s.calls), 1)
	n := max(int(lap/per), 1000)
	if w.limit == beyond {
		s.perLap = min(max(n/s.calls, 1), 100)
	} else {
		s.calls = n
		s.circuits = []circuit{c}
	}
	return s
}

func (s *subject) run(workers int) {
	circuits := s.circuits
	for len(circuits) < s.perLap {
		circuits = append(circuits, s.fresh())
	}
	m := measure(func() (calls, refused int) {
		for _, c := range circuits {
			n, k := s.loop(c, workers)
			calls, refused = calls+n, refused+k
		}
		return calls, refused
	})
	s.cpu.add(float64(m.cpu) / float64(m.calls))
	s.wall.add(float64(m.wall) / float64(m.calls))
	s.allocs.add(float64(m.mallocs) / float64(m.calls))
	s.refused.add(float64(m.refused) / float64(m.calls))
}

func (s *subject) loop(c circuit, workers int) (calls, refused int) {
	if workers == 1 {
		return s.calls, c.loop(s.calls, s.workload.results)
	}
	return parallel(func() (int, int) { return s.calls / workers, c.loop(s.calls/workers, s.workload.results) })
}

// speedTables prints a workload's tables, a rule each.
func (f *findings) speedTables(out io.Writer, w workload) {
	fmt.Fprintf(out, "### %s\n\n%s\n\n", w.name, w.says)
	for _, r := range w.rules {
		alone, together := speeds(w, r, f.rounds)
		f.speeds[speedKey{w.name, r}] = alone
		f.parallel[speedKey{w.name, r}] = together
		t := newTable(string(r), "CPU ns", "middle half", "wall ns", "ratio", "CPU ns on all cores", "middle half", "wall ns", "ratio", "allocations")
		for i, s := range alone {
			row := append([]string{s.name}, s.cells(alone[0])...)
			row = append(row, together[i].cells(together[0])...)
			t.row(append(row, fmt.Sprintf("%.0f", s.allocs.median()))...)
		}
		t.print(out)
	}
}

func (s *subject) cells(ours *subject) []string {
	w := s.workload
	if share := s.refused.median(); w.opened && share < 0.99 || !w.opened && share > 0.01 {
		return []string{fmt.Sprintf("refuses %.0f %%", 100*share), "", "", ""}
	}
	return []string{short(s.cpu.median()), s.cpu.middle(), short(s.wall.median()), short(s.cpu.median() / ours.cpu.median())}
}
