package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/redisstore"
)

// never is a threshold that no fleet here reaches.
const never = 100_000

// crowd is reporters that report to one circuit at once, each with a connection
// of its own.
type crowd struct {
	reporters int
	each      int // failures that one reports, one after the other
	threshold int // in a row
}

// reported is what came of a crowd.
type reported struct {
	took    spread        // milliseconds that one report took
	opened  time.Duration // from the first to the one that was told that the circuit is open; 0 = none was
	settled time.Duration // from the first until all were acknowledged
	counted int
	served  served // a report
}

// reporter reports one failure, and says whether the circuit is open.
type reporter interface {
	report() (open bool, err error)
	counted() (int, error)
	close()
}

type openReporter func(address, worker string, threshold int) (reporter, error)

// run lets all of them report, until each has reported all of its own or, if
// the circuit can open, until one is told that it is.
func (c crowd) run(redis *redisServer, open openReporter) (r reported, err error) {
	if err := redis.clear(); err != nil {
		return r, err
	}
	var all []reporter
	defer func() {
		for _, one := range all {
			one.close()
		}
	}()
	for i := range c.reporters {
		one, err := open(redis.address, workerName(i), c.threshold)
		if err != nil {
			return r, err
		}
		all = append(all, one)
	}
	before, err := redis.served()
	if err != nil {
		return r, err
	}
	var mu sync.Mutex
	var reporting sync.WaitGroup
	begun := time.Now()
	for _, one := range all {
		reporting.Go(func() {
			for range c.each {
				start := time.Now()
				open, reportErr := one.report()
				mu.Lock()
				r.took.add(milliseconds(time.Since(start)))
				if open && r.opened == 0 {
					r.opened = time.Since(begun)
				}
				err = errors.Join(err, reportErr)
				done := err != nil || open
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	reporting.Wait()
	r.settled = time.Since(begun)
	if err != nil {
		return r, err
	}
	after, err := redis.served()
	if err != nil {
		return r, err
	}
	r.served = after.since(before, len(r.took))
	r.counted, err = all[0].counted()
	return r, err
}

// storeReporter reports to fusebox's store.
type storeReporter struct {
	store  *redisstore.Store
	worker string
	policy fusebox.Policy
}

func openStoreReporter(address, worker string, threshold int) (reporter, error) {
	store, err := redisstore.Open(redisstore.Config{URL: "redis://" + address + "/0"})
	if err != nil {
		return nil, err
	}
	r := storeReporter{store, worker, fuseboxPolicy(streak, threshold)}
	_, err = r.apply()
	return r, err
}

func (r storeReporter) apply(events ...fusebox.Event) (fusebox.State, error) {
	return r.store.Apply(context.Background(), fleetCircuit, r.policy, events...)
}

func (r storeReporter) report() (open bool, err error) {
	s, err := r.apply(fusebox.Event{At: time.Now(), Outcome: fusebox.Failure, Class: fusebox.ClassServer, Worker: r.worker})
	return s.Phase == fusebox.Open, err
}

func (r storeReporter) counted() (int, error) {
	s, err := r.apply()
	return s.Streak, err
}

func (r storeReporter) close() { r.store.Close() }

// callReporter has no way to report but to make a call.
type callReporter struct{ *distributedCircuit }

func openCallReporter(address, _ string, threshold int) (reporter, error) {
	s, _ := gobreakerSettings(streak, threshold)
	c, err := openDistributed(address, s)
	return callReporter{c}, err
}

func (r callReporter) report() (open bool, err error) {
	err = r.guard(func(bool) error { return errBroken })
	open = errors.Is(err, gobreaker.ErrOpenState) || r.CircuitBreaker.State() == gobreaker.StateOpen
	if errors.Is(err, errBroken) || gobreakerRefused(err) {
		err = nil
	}
	return open, err
}

// crowdWay is a way of reporting.
type crowdWay struct {
	sharing    sharing
	open       openReporter
	thresholds []int // at which it is measured how soon the circuit opens
}

// crowdWays are fusebox's and gobreaker's. That loses so many failures that it
// is not asked to open at more than the least threshold.
var crowdWays = []crowdWay{
	{shared, openStoreReporter, []int{5, 50}},
	{distributed, openCallReporter, []int{5}},
}

// crowdFigures are the measurements of one way and size.
type crowdFigures struct {
	took, settled, commands, reads, micros spread
	opened                                 map[int]*spread // by threshold
	counted, made                          int
}

func (w crowdWay) measure(redis *redisServer, reporters, each, rounds int) (m crowdFigures, err error) {
	m.opened = map[int]*spread{}
	for range rounds {
		r, err := crowd{reporters, each, never}.run(redis, w.open)
		if err != nil {
			return m, err
		}
		m.took = append(m.took, r.took...)
		m.settled.add(milliseconds(r.settled))
		m.counted, m.made = m.counted+r.counted, m.made+len(r.took)
		m.commands.add(r.served.commands)
		m.reads.add(r.served.reads)
		m.micros.add(r.served.micros)
		for _, threshold := range w.thresholds {
			r, err := crowd{reporters, 100 * threshold, threshold}.run(redis, w.open)
			if err != nil {
				return m, err
			}
			if m.opened[threshold] == nil {
				m.opened[threshold] = &spread{}
			}
			if r.opened > 0 {
				m.opened[threshold].add(milliseconds(r.opened))
			}
		}
	}
	return m, nil
}

// opensAt is the median time to open, "–" where it was not tried or did not.
func (m crowdFigures) opensAt(threshold int) string {
	if s := m.opened[threshold]; s != nil {
		return short(s.median())
	}
	return "–"
}

// contention measures reports to one circuit by ever more at once.
func (f *findings) contention(out io.Writer, redis *redisServer, sizes []int) error {
	const each = 10
	fmt.Fprintf(out, "### Reports\n\nSo many reporters at once, each with %d failures of one circuit, one after the other: milliseconds that one report takes; from the first until the circuit is open, at a threshold of 5 and of 50; until all are acknowledged, where it does not open. Failures that were counted of those that were made. Commands of the server a report, those of scripts among them; reads from connections, about one a round trip; the server's CPU time. gobreaker's reports are calls that fail at once; the median is of those that a worker makes while the others sleep.\n\n", each)
	t := newTable("reporters", "circuits", "p50 ms", "p99 ms", "opens at 5", "at 50", "all acknowledged", "counted", "commands", "reads", "server µs")
	for _, n := range sizes {
		for _, w := range crowdWays {
			m, err := w.measure(redis, n, each, max(f.rounds/2, 3))
			if err != nil {
				return fmt.Errorf("%d reporters, %s: %w", n, w.sharing, err)
			}
			t.row(strconv.Itoa(n), string(w.sharing), short(m.took.median()), short(m.took.at(0.99)), m.opensAt(5), m.opensAt(50),
				short(m.settled.median()), fmt.Sprintf("%s of %s", thousands(int64(m.counted)), thousands(int64(m.made))), short(m.commands.median()), short(m.reads.median()), short(m.micros.median()))
			if w.sharing == shared {
				f.reports = append(f.reports, m)
			}
		}
	}
	t.print(out)
	return nil
}
