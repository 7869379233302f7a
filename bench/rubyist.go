package main

import (
	"context"
	"errors"

	"github.com/cenk/backoff"
	circuitbreaker "github.com/rubyist/circuitbreaker"
)

var rubyist = library{"rubyist/circuitbreaker", "github.com/rubyist/circuitbreaker", func(r rule, limit int) circuit {
	o := circuitbreaker.Options{BackOff: backoff.NewConstantBackOff(cooldown), WindowBuckets: 10}
	switch r {
	case streak:
		o.ShouldTrip = circuitbreaker.ConsecutiveTripFunc(int64(limit))
	case count:
		o.ShouldTrip, o.WindowTime = circuitbreaker.ThresholdTripFunc(int64(limit)), countWindow
	case rate:
		o.ShouldTrip, o.WindowTime = circuitbreaker.RateTripFunc(rateShare, int64(limit)), rateWindow
	default:
		return nil
	}
	return rubyistCircuit{circuitbreaker.NewBreakerWithOptions(&o)}
}}

type rubyistCircuit struct{ b *circuitbreaker.Breaker }

func (y rubyistCircuit) loop(n int, results []error) (refused int) {
	ctx := context.Background()
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		if got := y.b.CallContext(ctx, func() error { return err }, 0); got != err {
			refused++
		}
	}
	return refused
}

func (y rubyistCircuit) call(ctx context.Context, f func(context.Context) error) error {
	return y.b.CallContext(ctx, func() error { return f(ctx) }, 0)
}

func (rubyistCircuit) refused(err error) bool { return errors.Is(err, circuitbreaker.ErrBreakerOpen) }
