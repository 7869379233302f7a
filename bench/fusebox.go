package main

import (
	"context"
	"time"

	"github.com/fusebox-go/fusebox"
)

const fuseboxModule = "github.com/fusebox-go/fusebox"

var (
	fuseboxByHand = library{"fusebox Allow/Done", fuseboxModule, func(r rule, limit int) circuit {
		return byHand{newFusebox(r, limit, nil)}
	}}
	fuseboxDo = library{"fusebox Do", fuseboxModule, func(r rule, limit int) circuit {
		return byDo{newFusebox(r, limit, nil)}
	}}
	fuseboxStored = library{"fusebox Do, with a store", fuseboxModule, func(r rule, limit int) circuit {
		return byDo{newFusebox(r, limit, fusebox.NewMemory())}
	}}
)

// fuseboxPolicy is the built-in policy of a model, but for the rule.
func fuseboxPolicy(r rule, limit int) fusebox.Policy {
	p := fusebox.DefaultPolicy("model")
	p.Cooldown = fusebox.Cooldown{After: cooldown, Growth: 1}
	switch r {
	case streak:
		p.Trip = []fusebox.Trip{fusebox.Streak(limit)}
	case count:
		p.Trip = []fusebox.Trip{fusebox.Count(limit, countWindow)}
	case of:
		p.Trip = []fusebox.Trip{fusebox.Count(limit, countWindow).Of(2 * limit)}
	case rate:
		p.Trip = []fusebox.Trip{fusebox.Rate(rateShare, rateWindow, limit)}
	case slow:
		p.Trip = []fusebox.Trip{fusebox.Slow(rateShare, time.Second, rateWindow, limit)}
	}
	return p
}

func newFusebox(r rule, limit int, store fusebox.Store) *fusebox.Circuit {
	box, err := fusebox.New(fusebox.Config{
		Policy: func(string) fusebox.Policy { return fuseboxPolicy(r, limit) },
		Store:  store,
	})
	if err != nil {
		panic(err)
	}
	return fuseboxCircuit(box, "model/a")
}

func fuseboxCircuit(box *fusebox.Box, name string) *fusebox.Circuit {
	c, err := box.Circuit(name)
	if err != nil {
		panic(err)
	}
	return c
}

// byHand asks and reports in two steps, without a defer: what a panic or a
// Goexit leaves out is the library's to mend.
type byHand struct{ c *fusebox.Circuit }

func (h byHand) loop(n int, results []error) (refused int) {
	ctx := context.Background()
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		p, denied := h.c.Allow(ctx)
		switch {
		case denied != nil:
			refused++
		case err == nil:
			p.Done(fusebox.Result{})
		default:
			p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: err})
		}
	}
	return refused
}

func (h byHand) call(ctx context.Context, f func(context.Context) error) error {
	p, err := h.c.Allow(ctx)
	if err != nil {
		return err
	}
	err = f(ctx)
	p.Done(fusebox.Classify(ctx, err))
	return err
}

func (byHand) refused(err error) bool { return fusebox.AsDenial(err) != nil }

type byDo struct{ c *fusebox.Circuit }

func (d byDo) loop(n int, results []error) (refused int) {
	ctx := context.Background()
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		_, got := fusebox.Do(ctx, d.c, func(context.Context) (int, error) { return 1, err })
		if got != err {
			refused++
		}
	}
	return refused
}

func (d byDo) call(ctx context.Context, f func(context.Context) error) error {
	_, err := fusebox.Do(ctx, d.c, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

func (byDo) refused(err error) bool { return fusebox.AsDenial(err) != nil }
