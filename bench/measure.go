package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// sample is one measurement of many calls.
type sample struct {
	calls   int
	refused int
	wall    time.Duration
	cpu     time.Duration // of the whole process, so a library's own goroutines and its garbage count
	mallocs uint64
}

// measure times f, which makes calls and returns how many were made and refused.
func measure(f func() (calls, refused int)) sample {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	calls, refused := f()
	s := sample{calls: calls, refused: refused, wall: time.Since(start), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	s.mallocs = after.Mallocs - before.Mallocs
	return s
}

// cpuTime is what this process has used, in all its threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spread is a distribution of measured values.
type spread []float64

func (s *spread) add(v float64) { *s = append(*s, v) }

// at is the q-th quantile, interpolated; NaN of nothing.
func (s spread) at(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	pos := q * float64(len(sorted)-1)
	i := int(pos)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (pos-float64(i))*(sorted[i+1]-sorted[i])
}

func (s spread) median() float64 { return s.at(0.5) }

// middle is the range in which the middle half of the values lies.
func (s spread) middle() string { return short(s.at(0.25)) + "–" + short(s.at(0.75)) }

// short prints three significant digits, at most three of them after the point
// and none from 100 on.
func short(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v == 0:
		return "0"
	case v >= 10_000:
		return thousands(int64(math.Round(v)))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v < 0.1 && v > -0.1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// interleave runs every subject once per round, each round beginning with
// another one, so that what the machine does meanwhile falls on all alike.
func interleave(rounds int, subjects []func()) {
	for r := range rounds {
		for i := range subjects {
			subjects[(i+r)%len(subjects)]()
		}
	}
}

// parallel runs f on as many goroutines as there are cores, and adds up what
// they return.
func parallel(f func() (calls, refused int)) (calls, refused int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c, r := f()
			mu.Lock()
			defer mu.Unlock()
			calls, refused = calls+c, refused+r
		})
	}
	wg.Wait()
	return calls, refused
}
