package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/afex/hystrix-go/hystrix"
)

// hystrixDo has one rule, a share of at least so many calls within 10 s, looks
// its circuits up by name, and runs every call in a goroutine of its own.
var hystrixDo = library{"hystrix-go", "github.com/afex/hystrix-go", func(r rule, limit int) circuit {
	if r != rate {
		return nil
	}
	name := strconv.FormatInt(hystrixNames.Add(1), 10)
	hystrix.ConfigureCommand(name, hystrix.CommandConfig{
		Timeout:                60_000, // ms, and of each call: as long as fusebox's lease
		MaxConcurrentRequests:  hystrixAtOnce,
		RequestVolumeThreshold: limit,
		SleepWindow:            int(cooldown.Milliseconds()),
		ErrorPercentThreshold:  int(100 * rateShare),
	})
	if _, _, err := hystrix.GetCircuit(name); err != nil {
		panic(err)
	}
	return hystrixCircuit{name}
}}

var hystrixNames atomic.Int64

// hystrixAtOnce is how many calls may run at once. A call's place is given back
// after its caller has its answer, so that one caller alone runs out of the
// default of 10.
var hystrixAtOnce = 1000

type hystrixCircuit struct{ name string }

func (h hystrixCircuit) loop(n int, results []error) (refused int) {
	i := 0
	for range n {
		err := results[i]
		if i++; i == len(results) {
			i = 0
		}
		if got := hystrix.Do(h.name, func() error { return err }, nil); got != err {
			refused++
		}
	}
	return refused
}

func (h hystrixCircuit) call(ctx context.Context, f func(context.Context) error) error {
	return hystrix.DoC(ctx, h.name, f, nil)
}

func (hystrixCircuit) refused(err error) bool {
	return errors.Is(err, hystrix.ErrCircuitOpen) || errors.Is(err, hystrix.ErrMaxConcurrency)
}
