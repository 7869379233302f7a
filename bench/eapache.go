package main

import (
	"context"
	"errors"

	"github.com/eapache/go-resiliency/breaker"
)

// eapache's one rule counts errors that have no gap of a cooldown between them;
// a success does not reset it. It stands among the streaks, which it is nearest to.
var eapache = library{"eapache/go-resiliency", "github.com/eapache/go-resiliency", func(r rule, limit int) circuit {
	if r != streak {
		return nil
	}
	return eapacheCircuit{breaker.New(limit, 1, cooldown)}
}}

type eapacheCircuit struct{ b *breaker.Breaker }

func (e eapacheCircuit) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		if got := e.b.Run(func() error { return err }); got != err {
			refused++
		}
	}
	return refused
}

func (e eapacheCircuit) call(ctx context.Context, f func(context.Context) error) error {
	return e.b.Run(func() error { return f(ctx) })
}

func (eapacheCircuit) refused(err error) bool { return errors.Is(err, breaker.ErrBreakerOpen) }
