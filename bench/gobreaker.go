package main

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

const gobreakerModule = "github.com/sony/gobreaker/v2"

var (
	gobreakerExecute = library{"gobreaker Execute", gobreakerModule, func(r rule, limit int) circuit {
		s, ok := gobreakerSettings(r, limit)
		if !ok {
			return nil
		}
		return gobreakerCircuit{gobreaker.NewCircuitBreaker[int](s)}
	}}
	gobreakerByHand = library{"gobreaker two-step", gobreakerModule, func(r rule, limit int) circuit {
		s, ok := gobreakerSettings(r, limit)
		if !ok {
			return nil
		}
		return gobreakerTwoStep{gobreaker.NewTwoStepCircuitBreaker[int](s)}
	}}
)

func gobreakerSettings(r rule, limit int) (s gobreaker.Settings, ok bool) {
	n := uint32(limit)
	s = gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     cooldown,
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	}
	switch r {
	case streak:
		s.ReadyToTrip = func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= n }
	case count:
		s.Interval, s.BucketPeriod = countWindow, countWindow/10
		s.ReadyToTrip = func(c gobreaker.Counts) bool { return c.TotalFailures >= n }
	case rate:
		s.Interval, s.BucketPeriod = rateWindow, time.Second
		s.ReadyToTrip = func(c gobreaker.Counts) bool {
			return c.Requests >= n && float64(c.TotalFailures) >= rateShare*float64(c.Requests)
		}
	default:
		return s, false
	}
	return s, true
}

func gobreakerRefused(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

type gobreakerCircuit struct {
	b *gobreaker.CircuitBreaker[int]
}

func (g gobreakerCircuit) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		_, got := g.b.Execute(func() (int, error) { return 1, err })
		if got != err {
			refused++
		}
	}
	return refused
}

func (g gobreakerCircuit) call(ctx context.Context, f func(context.Context) error) error {
	_, err := g.b.Execute(func() (int, error) { return 0, f(ctx) })
	return err
}

func (gobreakerCircuit) refused(err error) bool { return gobreakerRefused(err) }

type gobreakerTwoStep struct {
	b *gobreaker.TwoStepCircuitBreaker[int]
}

func (g gobreakerTwoStep) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		done, denied := g.b.Allow()
		if denied != nil {
			refused++
			continue
		}
		done(err)
	}
	return refused
}

func (g gobreakerTwoStep) call(ctx context.Context, f func(context.Context) error) error {
	done, err := g.b.Allow()
	if err != nil {
		return err
	}
	err = f(ctx)
	done(err)
	return err
}

func (gobreakerTwoStep) refused(err error) bool { return gobreakerRefused(err) }
