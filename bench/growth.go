package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
)

// growth measures how the cost of a call grows with what there is.
func (f *findings) growth(out io.Writer) error {
	fmt.Fprint(out, "## Growth\n\nWhat a call costs while something else grows: medians of all rounds, CPU time where it is nanoseconds. \"×\" is to the first line.\n\n")
	f.growingCircuits(out)
	f.growingMarks(out)
	return f.growingLog(out)
}

// sized is one line of a growth table.
type sized struct {
	size int
	runs []func() float64 // a column each
	took []spread
}

// growTable measures and prints lines for the sizes.
func (f *findings) growTable(out io.Writer, head []string, lines []*sized) {
	var runs []func()
	for _, l := range lines {
		l.took = make([]spread, len(l.runs))
		for i, run := range l.runs {
			runs = append(runs, func() { l.took[i].add(run()) })
		}
	}
	interleave(f.rounds, runs)
	for i := range lines[0].runs {
		head = append(head[:1+3*i+1], append([]string{"middle half", "×"}, head[1+3*i+1:]...)...)
	}
	t := newTable(head...)
	for _, l := range lines {
		row := []string{thousands(int64(l.size))}
		for i, s := range l.took {
			row = append(row, short(s.median()), s.middle(), short(s.median()/lines[0].took[i].median()))
		}
		t.row(row...)
	}
	t.print(out)
}

// nanos is the CPU time of one of n calls.
func nanos(n int, f func()) float64 {
	m := measure(func() (int, int) { f(); return n, 0 })
	return float64(m.cpu) / float64(m.calls)
}

// growingCircuits calls one circuit after the other, of ever more.
func (f *findings) growingCircuits(out io.Writer) {
	var lines []*sized
	for _, size := range []int{10, 1000, 100_000} {
		box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return fuseboxPolicy(streak, 5) }})
		if err != nil {
			panic(err)
		}
		names := make([]string, size)
		circuits := make([]circuit, size)
		for i := range names {
			names[i] = "model/backend/" + strconv.Itoa(i)
			circuits[i] = byHand{fuseboxCircuit(box, names[i])}
		}
		const calls = 100_000
		lines = append(lines, &sized{size: size, runs: []func() float64{
			func() float64 {
				return nanos(calls, func() {
					for i := range calls {
						circuits[i%size].loop(1, []error{nil})
					}
				})
			},
			func() float64 {
				return nanos(calls, func() {
					for i := range calls {
						byHand{fuseboxCircuit(box, names[i%size])}.loop(1, []error{nil})
					}
				})
			},
		}})
	}
	fmt.Fprint(out, "Many circuits, called in turn: memory that is not in the processor's caches is what is seen.\n\n")
	f.growTable(out, []string{"circuits", "ns, kept by the caller", "ns, looked up by name"}, lines)
}

// growingMarks calls a circuit that remembers ever more failures.
func (f *findings) growingMarks(out io.Writer) {
	var lines []*sized
	for _, size := range []int{10, 100, 1000, 10_000} {
		c := byHand{newFusebox(count, size+1, nil)}
		c.loop(size, []error{errBroken})
		lines = append(lines, &sized{size: size, runs: []func() float64{
			func() float64 { return nanos(20_000, func() { c.loop(20_000, []error{nil}) }) },
			func() float64 { return failuresBeside(size) },
		}})
	}
	fmt.Fprint(out, "Failures that a count remembers: each size is its window's.\n\n")
	f.growTable(out, []string{"marks", "ns, a success", "ns, a failure"}, lines)
}

// failuresBeside is what a failure costs beside so many that still count. It is
// told in the circuit's own time, so that each drives the oldest from the window.
func failuresBeside(marks int) float64 {
	const gap = time.Second
	p := fuseboxPolicy(count, marks+1)
	p.Trip = []fusebox.Trip{fusebox.Count(marks+1, time.Duration(marks-1)*gap)}
	s := fusebox.State{Policy: p}
	at := time.Now()
	fail := func() {
		at = at.Add(gap)
		s.Apply(&fusebox.Event{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassServer})
	}
	for range 2 * marks {
		fail()
	}
	const calls = 1000
	return nanos(calls, func() {
		for range calls {
			fail()
		}
	})
}

// growingLog opens ever longer logs, takes one event in and closes them.
func (f *findings) growingLog(out io.Writer) error {
	var lines []*sized
	for _, size := range []int{1000, 10_000, 100_000} {
		dir, err := os.MkdirTemp("", "fusebox-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := fillLog(dir, size); err != nil {
			return err
		}
		lines = append(lines, &sized{size: size, runs: []func() float64{func() float64 {
			k := storeKind{name: "filestore", open: openFilestore}
			took, err := storeLaps(k, fresh, dir, 20)
			if err != nil {
				panic(err)
			}
			return took.median()
		}}})
	}
	fmt.Fprint(out, "A log of so many lines, all rotations together: open it, take in one event, close it.\n\n")
	f.growTable(out, []string{"lines", "µs"}, lines)
	return nil
}

func fillLog(dir string, lines int) error {
	s, err := filestore.Open(filestore.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	events := make([]fusebox.Event, 500)
	for range lines / len(events) {
		for i := range events {
			events[i] = usual()
		}
		if _, err := s.Apply(context.Background(), storedCircuit, fusebox.Policy{}, events...); err != nil {
			return err
		}
	}
	return nil
}
