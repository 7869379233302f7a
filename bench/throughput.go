package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// mill is a fleet in which every worker makes call after call.
type mill struct {
	workers int
	length  time.Duration // of a call
	result  error         // of every call
	lasting time.Duration
}

// milled is what came of it.
type milled struct {
	calls   int
	lost    int // calls that were not made, or not counted, for want of the store
	counted int // failures, by the fleet's circuit
	elapsed time.Duration
	settled time.Duration // from then until all were counted
	served  served        // a call
}

func (m mill) run(redis *redisServer, s sharing) (r milled, err error) {
	if err := redis.clear(); err != nil {
		return r, err
	}
	var workers []workerCircuit
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	for i := range m.workers {
		o := order{Sharing: s, Worker: workerName(i), Redis: redis.address, Rule: streak, Threshold: never, Cooldown: cooldown}
		w, err := o.open(func() {})
		if err != nil {
			return r, err
		}
		workers = append(workers, w)
	}
	before, err := redis.served()
	if err != nil {
		return r, err
	}
	var calls, lost atomic.Int64
	var working sync.WaitGroup
	begun := time.Now()
	for _, w := range workers {
		working.Go(func() {
			for time.Since(begun) < m.lasting {
				err := w.guard(func(bool) error {
					calls.Add(1)
					time.Sleep(m.length)
					return m.result
				})
				if !errors.Is(err, m.result) {
					lost.Add(1)
				}
			}
		})
	}
	working.Wait()
	r.calls, r.lost, r.elapsed = int(calls.Load()), int(lost.Load()), time.Since(begun)
	for _, w := range workers {
		if err := w.flush(); err != nil {
			return r, err
		}
	}
	r.settled = time.Since(begun) - r.elapsed
	after, err := redis.served()
	if err != nil {
		return r, err
	}
	r.served = after.since(before, r.calls)
	r.counted, err = workers[0].counted()
	return r, err
}

// usualMill is of fleets of all sizes.
var usualMill = mill{length: 20 * time.Millisecond, lasting: 2 * time.Second}

// throughput measures how many calls a fleet makes, and what of it the store
// gets to know.
func (f *findings) throughput(out io.Writer, redis *redisServer, sizes []int, m mill) error {
	fmt.Fprintf(out, "### A fleet's calls\n\nEvery worker makes call after call, each of %v, for %v; the circuit does not open. Calls a second; commands of the server, reads from connections, and the server's CPU time a call; calls that failed for want of the store; failures that were counted of those that were made; milliseconds until the last was.\n\n", m.length, m.lasting)
	t := newTable("calls", "workers", "circuits", "calls/s", "commands", "reads", "server µs", "lost", "counted", "after ms")
	for _, result := range []error{nil, errBroken} {
		for _, n := range sizes {
			for _, s := range []sharing{shared, distributed} {
				m.workers, m.result = n, result
				r, err := m.run(redis, s)
				if err != nil {
					return fmt.Errorf("%d workers, %s: %w", n, s, err)
				}
				kind, counted := "work", "–"
				if result != nil {
					kind, counted = "fail", fmt.Sprintf("%s of %s", thousands(int64(r.counted)), thousands(int64(r.calls)))
				}
				t.row(kind, strconv.Itoa(n), string(s), short(float64(r.calls)/r.elapsed.Seconds()), short(r.served.commands), short(r.served.reads), short(r.served.micros),
					strconv.Itoa(r.lost), counted, short(milliseconds(r.settled)))
			}
		}
	}
	t.print(out)
	return nil
}
