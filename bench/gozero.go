package main

import (
	"context"
	"errors"

	"github.com/zeromicro/go-zero/core/breaker"
	"github.com/zeromicro/go-zero/core/logx"
	"github.com/zeromicro/go-zero/core/stat"
)

// It logs from when it is imported: refusals, and what the process uses.
func init() {
	stat.SetReporter(nil)
	logx.Disable()
}

// go-zero's breaker is adaptive and takes no settings: the more of the last 10 s
// failed, the more calls it refuses, by lot.
var goZero = library{"go-zero", "github.com/zeromicro/go-zero", func(r rule, _ int) circuit {
	if r != rate {
		return nil
	}
	return goZeroCircuit{breaker.NewBreaker()}
}}

type goZeroCircuit struct{ b breaker.Breaker }

func (z goZeroCircuit) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		if got := z.b.Do(func() error { return err }); got != err {
			refused++
		}
	}
	return refused
}

func (z goZeroCircuit) call(ctx context.Context, f func(context.Context) error) error {
	return z.b.DoWithAcceptableCtx(ctx, func() error { return f(ctx) },
		func(err error) bool { return err == nil || errors.Is(err, context.Canceled) })
}

func (goZeroCircuit) refused(err error) bool { return errors.Is(err, breaker.ErrServiceUnavailable) }
