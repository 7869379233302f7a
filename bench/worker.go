package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/redisstore"
)

// sharing is how the workers of a fleet keep their circuits.
type sharing string

const (
	alone       sharing = "fusebox, each alone"
	shared      sharing = "fusebox, shared"
	early       sharing = "fusebox, shared, overdue" // calls count as failed before they end
	distributed sharing = "gobreaker, distributed"
)

const fleetCircuit = "model/a"

// workerName is the name of the ith worker: to fusebox each is on a host of its
// own.
func workerName(i int) string { return "worker-" + strconv.Itoa(i) }

// order says to a worker what to do.
type order struct {
	Sharing   sharing
	Worker    string // its name
	Redis     string // host:port
	Rule      rule
	Threshold int
	Cooldown  time.Duration // the same for every one
	Overdue   time.Duration // with early

	// Of a process.
	Backend string
	First   time.Duration // until the first call
	Every   time.Duration // between calls
	AtOnce  int           // calls under way at most; a call that is due meanwhile is left out
}

// workerCircuit is the circuit of one worker of a fleet.
type workerCircuit interface {
	// guard makes a call under it. The error is call's, or says why it was not
	// made or not counted.
	guard(call func(probe bool) error) error
	flush() error          // until the fleet's circuit knows of every call
	counted() (int, error) // failures, by the fleet's circuit; under a streak
	close()
}

// open returns the worker's circuit. opened is called when fusebox's opens.
func (o order) open(opened func()) (workerCircuit, error) {
	if o.Sharing == distributed {
		s, _ := gobreakerSettings(o.Rule, o.Threshold)
		s.Timeout = o.Cooldown
		return openDistributed(o.Redis, s)
	}
	var store fusebox.Store = fusebox.NewMemory()
	if o.Sharing != alone {
		var err error
		if store, err = redisstore.Open(redisstore.Config{URL: "redis://" + o.Redis + "/0"}); err != nil {
			return nil, err
		}
	}
	p := fuseboxPolicy(o.Rule, o.Threshold)
	p.Cooldown.After = o.Cooldown
	if o.Sharing == early {
		p.Overdue = o.Overdue
	}
	return openBoxed(store, o.Worker, p, opened)
}

// boxed is fusebox's.
type boxed struct {
	store fusebox.Store
	box   *fusebox.Box
	c     *fusebox.Circuit
}

// reportEvery is how often a worker of a fleet reports its successes, where
// nothing else is said.
const reportEvery = 500 * time.Millisecond

func openBoxed(store fusebox.Store, worker string, p fusebox.Policy, opened func()) (*boxed, error) {
	box, err := fusebox.New(fusebox.Config{
		Store: store, Worker: worker, Report: reportEvery,
		Policy: func(string) fusebox.Policy { return p },
	})
	if err != nil {
		return nil, err
	}
	box.OnTransition(func(t fusebox.Transition) {
		if t.To == fusebox.Open {
			opened()
		}
	})
	c, err := box.Circuit(fleetCircuit)
	return &boxed{store, box, c}, err
}

func (b *boxed) guard(call func(probe bool) error) error {
	ctx := context.Background()
	permit, err := b.c.Allow(ctx)
	if err != nil {
		return err
	}
	err = call(permit.Probe())
	permit.Done(fusebox.Classify(ctx, err))
	return err
}

// flush goes on for a minute where the store is busy with the others.
func (b *boxed) flush() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if err = b.box.Flush(ctx); err == nil {
			return nil
		}
	}
	return err
}

func (b *boxed) counted() (int, error) {
	s, err := b.store.Apply(context.Background(), fleetCircuit, fusebox.Policy{})
	return s.Streak, err
}

func (b *boxed) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing is left to report
	b.box.Close(ctx)
	b.store.Close()
}

// workerChild is one worker of a fleet. It says that it is ready, begins when it
// is given a line, and at the end of its input says when its circuit opened
// first, in nanoseconds since 1970, 0 if it did not.
func workerChild(args []string) error {
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	var openedAt atomic.Int64
	circuit, err := o.open(func() { openedAt.CompareAndSwap(0, time.Now().UnixNano()) })
	if err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	go o.work(circuit)
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	fmt.Println(openedAt.Load())
	return nil
}

// work makes calls for ever.
func (o order) work(circuit workerCircuit) {
	call := caller(o.Backend)
	slots := make(chan struct{}, o.AtOnce)
	time.Sleep(o.First)
	for tick := time.NewTicker(o.Every); ; <-tick.C {
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				circuit.guard(call)
			}()
		default:
		}
	}
}
