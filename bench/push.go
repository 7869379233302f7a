package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/redisstore"
)

// push measures how long the others do not know that one opened the circuit.
func (f *findings) push(out io.Writer, redis *redisServer, sizes []int) error {
	fmt.Fprint(out, "### Push\n\nMilliseconds from one worker's trip to another's knowing of it, and to the last one's, by how many others there are: the report and the message.\n\n")
	t := newTable("others", "p50 ms", "p99 ms", "last, p50 ms", "last, p99 ms")
	for _, n := range sizes {
		one, last, err := pushes(redis, n, 8*f.rounds)
		if err != nil {
			return fmt.Errorf("push to %d: %w", n, err)
		}
		t.row(strconv.Itoa(n), short(one.median()), short(one.at(0.99)), short(last.median()), short(last.at(0.99)))
	}
	t.print(out)
	return nil
}

// pushes trips and resets a circuit so many times before so many others.
func pushes(redis *redisServer, others, laps int) (one, last spread, err error) {
	if err := redis.clear(); err != nil {
		return nil, nil, err
	}
	heard := make(chan time.Time, others)
	var circuits []*fusebox.Circuit
	for i := range others + 1 {
		store, err := redisstore.Open(redisstore.Config{URL: redis.url()})
		if err != nil {
			return nil, nil, err
		}
		b, err := openBoxed(store, workerName(i), fuseboxPolicy(streak, never), func() {})
		if err != nil {
			return nil, nil, err
		}
		defer b.close()
		if i > 0 {
			b.box.OnTransition(func(fusebox.Transition) { heard <- time.Now() })
		}
		circuits = append(circuits, b.c)
	}
	// all hear of one change, sent after the other.
	all := func(change func()) (took spread, err error) {
		start := time.Now()
		change()
		timeout := time.After(10 * time.Second)
		for range others {
			select {
			case at := <-heard:
				took.add(milliseconds(at.Sub(start)))
			case <-timeout:
				return nil, fmt.Errorf("a worker did not hear of it")
			}
		}
		return took, nil
	}
	for range laps {
		took, err := all(func() { circuits[0].Trip("measured") })
		if err != nil {
			return nil, nil, err
		}
		one = append(one, took...)
		last.add(took.at(1))
		if _, err := all(func() { circuits[0].Reset("measured") }); err != nil {
			return nil, nil, err
		}
	}
	return one, last, nil
}
