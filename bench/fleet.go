package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// outage is a backend that breaks under a fleet, and stays so.
type outage struct {
	sharing   sharing
	workers   int
	rate      int           // calls a second, of all workers together
	working   time.Duration // a call that succeeds
	failing   time.Duration // a call that fails
	threshold int           // failures within a minute
	cooldown  time.Duration
	overdue   time.Duration // with early
	before    time.Duration // how long it works
	probing   time.Duration // how long it is watched after the last worker can have stopped
}

// fate is what came of an outage.
type fate struct {
	tally
	due   int           // calls that were due before it
	delay time.Duration // from the failure that made the threshold to the last worker's knowing
}

// run lets the fleet run into the outage.
func (o outage) run(redis *redisServer) (f fate, err error) {
	b := startBackend(o.working, o.failing)
	defer b.Close()
	if err := redis.clear(); err != nil {
		return f, err
	}
	c, err := startCrew(o.orders(b.URL, redis.address))
	if err != nil {
		return f, err
	}
	begun := time.Now()
	if err := c.begin(); err != nil {
		c.kill()
		return f, err
	}
	time.Sleep(o.before)
	worked := b.goDown()
	f.due = 1 + int(time.Since(begun).Seconds()*float64(o.rate))
	err = b.awaitFailures(o.threshold)
	time.Sleep(o.longest())
	t, nth := b.fate(o.threshold)
	f.tally = t
	f.worked = worked
	opened, endErr := c.end()
	if len(opened) > 0 {
		f.delay = max(slices.MaxFunc(opened, time.Time.Compare).Sub(nth.Add(o.failure())), 0) // a call begins before it arrives
	}
	return f, cmp.Or(err, endErr)
}

// longest is how long the outage is watched: until each worker by itself can
// have stopped, and some probes more.
func (o outage) longest() time.Duration {
	return time.Duration(o.workers*o.threshold)*time.Second/time.Duration(o.rate) + o.failing + o.probing
}

func (o outage) orders(backend, redis string) (all []order) {
	every := time.Second * time.Duration(o.workers) / time.Duration(o.rate)
	for i := range o.workers {
		all = append(all, order{
			Sharing: o.sharing, Worker: workerName(i), Backend: backend, Redis: redis,
			Rule: count, Threshold: o.threshold, Cooldown: o.cooldown, Overdue: o.overdue,
			First: every * time.Duration(i) / time.Duration(o.workers), Every: every,
			AtOnce: 2 + int(2*max(o.working, o.failing)/every),
		})
	}
	return all
}

// failure is how long a call runs until it counts as failed.
func (o outage) failure() time.Duration {
	if o.sharing == early {
		return min(o.overdue, o.failing)
	}
	return o.failing
}

// bound is B1: the calls that can reach the backend.
func (o outage) bound(delay time.Duration) float64 {
	if o.sharing == alone {
		return float64(o.workers*o.threshold) + float64(o.rate)*o.failure().Seconds()
	}
	return float64(o.threshold) + float64(o.rate)*(o.failure()+delay).Seconds()
}

// usualOutage is what the fleet's tables have in common.
var usualOutage = outage{
	rate: 200, working: 5 * time.Millisecond, failing: 5 * time.Millisecond, threshold: 5, cooldown: 500 * time.Millisecond,
	overdue: 100 * time.Millisecond, before: 600 * time.Millisecond, probing: 1500 * time.Millisecond,
}

// fleets are the sizes that are measured.
var fleets = []int{1, 2, 5, 10, 20, 50}

// fleet measures what a broken backend gets to see of a fleet.
func (f *findings) fleet(out io.Writer) error {
	var bySize, byLength []outage
	for _, n := range fleets {
		for _, s := range []sharing{alone, shared, distributed} {
			o := usualOutage
			o.sharing, o.workers = s, n
			bySize = append(bySize, o)
		}
	}
	for _, length := range []time.Duration{200 * time.Millisecond, time.Second} {
		for _, s := range []sharing{alone, shared, early, distributed} {
			o := usualOutage
			o.sharing, o.workers, o.failing = s, 20, length
			byLength = append(byLength, o)
		}
	}
	u := usualOutage
	fmt.Fprintf(out, "## A fleet and a broken backend\n\nCalls that reach it, in one outage each. The workers are processes, which call it %d times a second in all; a call that works takes %v. All circuits open at T = %d failures within a minute and cool down for %v. The formula, with R workers, λ calls a second, L for a call to fail, d from the T-th failure to the last worker's knowing: T + λ(L + d) where the circuit is shared, R·T + λL where it is not. Probes: those that reached it, and the most at once. Worked before: calls that worked while the backend did, of those that were due. gobreaker's distributed circuit holds its lock while a call runs, so that the fleet makes one call at a time.\n\n",
		u.rate, u.working, u.threshold, u.cooldown)
	if !hasRedis() {
		fmt.Fprint(out, noRedis)
		return nil
	}
	redis, err := startRedis()
	if err != nil {
		return err
	}
	defer redis.stop()
	if err := f.outages(out, redis, bySize); err != nil {
		return err
	}
	fmt.Fprintf(out, "Calls that need longer to fail. Overdue: a call counts as failed after %v, before it ends; the formula has that in place of L. A probe has had its verdict then, too, and its call may still run when the next one's begins.\n\n", u.overdue)
	return f.outages(out, redis, byLength)
}

// outages runs each and prints a table of them.
func (f *findings) outages(out io.Writer, redis *redisServer, all []outage) error {
	t := newTable("workers", "a call fails in", "circuits", "reached it", "formula", "d ms", "probes", "at once", "worked before")
	for _, o := range all {
		fate, err := o.run(redis)
		if err != nil {
			return fmt.Errorf("%d workers, %s: %w", o.workers, o.sharing, err)
		}
		formula, delay := short(o.bound(fate.delay)), "–"
		switch o.sharing {
		case distributed:
			formula = "–"
		case shared, early:
			delay = short(milliseconds(fate.delay))
		}
		t.row(strconv.Itoa(o.workers), o.failing.String(), string(o.sharing), strconv.Itoa(fate.reached), formula, delay,
			strconv.Itoa(fate.probes), strconv.Itoa(fate.together), fmt.Sprintf("%.0f %%", 100*float64(fate.worked)/float64(fate.due)))
		f.outcomes = append(f.outcomes, outcome{o, fate})
	}
	t.print(out)
	return nil
}

// outcome is an outage and what came of it.
type outcome struct {
	outage
	fate
}
