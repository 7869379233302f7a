package main

import (
	"context"
	"errors"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const failsafeModule = "github.com/failsafe-go/failsafe-go"

var (
	failsafeByHand = library{"failsafe-go by hand", failsafeModule, func(r rule, limit int) circuit {
		if b := newFailsafe(r, limit); b != nil {
			return failsafePermits{b}
		}
		return nil
	}}
	failsafeRun = library{"failsafe-go With().Run", failsafeModule, func(r rule, limit int) circuit {
		if b := newFailsafe(r, limit); b != nil {
			return failsafeExecutor{b}
		}
		return nil
	}}
)

func newFailsafe(r rule, limit int) circuitbreaker.CircuitBreaker[any] {
	n := uint(limit)
	b := circuitbreaker.NewBuilder[any]().WithDelay(cooldown).WithSuccessThreshold(1).
		HandleIf(func(_ any, err error) bool { return err != nil && !errors.Is(err, context.Canceled) })
	switch r {
	case streak:
		b = b.WithFailureThreshold(n)
	case count:
		b = b.WithFailureThresholdPeriod(n, countWindow)
	case of:
		b = b.WithFailureThresholdRatio(n, 2*n)
	case rate:
		b = b.WithFailureRateThreshold(rateShare, n, rateWindow)
	default:
		return nil
	}
	return b.Build()
}

type failsafePermits struct {
	b circuitbreaker.CircuitBreaker[any]
}

func (s failsafePermits) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		switch {
		case !s.b.TryAcquirePermit():
			refused++
		case err == nil:
			s.b.RecordSuccess()
		default:
			s.b.RecordError(err)
		}
	}
	return refused
}

func (s failsafePermits) call(ctx context.Context, f func(context.Context) error) error {
	if !s.b.TryAcquirePermit() {
		return circuitbreaker.ErrOpen
	}
	err := f(ctx)
	s.b.RecordError(err)
	return err
}

func (failsafePermits) refused(err error) bool { return errors.Is(err, circuitbreaker.ErrOpen) }

type failsafeExecutor struct {
	b circuitbreaker.CircuitBreaker[any]
}

func (s failsafeExecutor) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		if got := failsafe.With[any](s.b).Run(func() error { return err }); got != err {
			refused++
		}
	}
	return refused
}

func (s failsafeExecutor) call(ctx context.Context, f func(context.Context) error) error {
	return failsafe.With[any](s.b).WithContext(ctx).Run(func() error { return f(ctx) })
}

func (failsafeExecutor) refused(err error) bool { return errors.Is(err, circuitbreaker.ErrOpen) }
