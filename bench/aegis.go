package main

import (
	"context"
	"errors"

	"github.com/go-kratos/aegis/circuitbreaker"
	"github.com/go-kratos/aegis/circuitbreaker/sre"
)

// aegis is adaptive, as go-zero's breaker, and takes settings.
var aegis = library{"go-kratos/aegis", "github.com/go-kratos/aegis", func(r rule, limit int) circuit {
	if r != rate {
		return nil
	}
	return aegisCircuit{sre.NewBreaker(sre.WithRequest(int64(limit)), sre.WithSuccess(1-rateShare), sre.WithWindow(rateWindow))}
}}

type aegisCircuit struct{ b circuitbreaker.CircuitBreaker }

func (a aegisCircuit) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		switch {
		case a.b.Allow() != nil:
			a.b.MarkFailed() // as its source asks, so that the share refused grows
			refused++
		case err == nil:
			a.b.MarkSuccess()
		default:
			a.b.MarkFailed()
		}
	}
	return refused
}

func (a aegisCircuit) call(ctx context.Context, f func(context.Context) error) error {
	if err := a.b.Allow(); err != nil {
		a.b.MarkFailed()
		return err
	}
	err := f(ctx)
	switch {
	case err == nil:
		a.b.MarkSuccess()
	case !errors.Is(err, context.Canceled):
		a.b.MarkFailed()
	}
	return err
}

func (aegisCircuit) refused(err error) bool { return errors.Is(err, circuitbreaker.ErrNotAllowed) }
