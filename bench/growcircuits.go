package main

import (
	"io"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// growingCircuits calls one circuit after the other, of ever more.
func (f *findings) growingCircuits(out io.Writer) error {
	g := &grown{
		title: "circuits", grows: "circuits", columns: []string{"ns, kept by the caller", "ns, looked up by name"},
		says: "Many circuits, called in turn: memory that is not in the processor's caches is what is seen.",
	}
	for _, size := range f.sizes(10, 100, 1000, 10_000, 100_000) {
		box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return fuseboxPolicy(streak, 5) }})
		if err != nil {
			return err
		}
		names := make([]string, size)
		circuits := make([]circuit, size)
		for i := range names {
			names[i] = "model/backend/" + strconv.Itoa(i)
			circuits[i] = byHand{fuseboxCircuit(box, names[i])}
		}
		const calls = 100_000
		g.lines = append(g.lines, &sized{size: size, run: func() ([]float64, error) {
			kept := nanos(calls, func() {
				for i := range calls {
					circuits[i%size].loop(1, []error{nil})
				}
			})
			lookedUp := nanos(calls, func() {
				for i := range calls {
					byHand{fuseboxCircuit(box, names[i%size])}.loop(1, []error{nil})
				}
			})
			return []float64{kept, lookedUp}, nil
		}})
	}
	return f.grow(out, g)
}

// growingMarks calls a circuit that remembers ever more failures.
func (f *findings) growingMarks(out io.Writer) error {
	g := &grown{
		title: "failures in a window", grows: "marks", columns: []string{"ns, a success", "ns, a failure"},
		says: "Failures that a count remembers: each size is its window's.",
	}
	for _, size := range f.sizes(10, 100, 1000, 10_000) {
		c := byHand{newFusebox(count, size+1, nil)}
		c.loop(size, []error{errBroken})
		const calls = 100_000
		g.lines = append(g.lines, &sized{size: size, run: func() ([]float64, error) {
			success := nanos(calls, func() { c.loop(calls, []error{nil}) })
			return []float64{success, failuresBeside(size)}, nil
		}})
	}
	return f.grow(out, g)
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
	calls := max(1000, 10*marks) // many: what is done once for many of them counts too
	return nanos(calls, func() {
		for range calls {
			fail()
		}
	})
}
