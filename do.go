package fusebox

import (
	"context"
	"fmt"
)

// Do calls f if the circuit allows it, and reports the result: nil is a
// success, an error is classified by Config.Classify, a panic is a failure and
// goes on panicking, runtime.Goexit counts as canceled. A refusal is returned
// as a *[Denial], without calling f. ctx is passed to f; a caller whose ctx is
// done already gets its error, and f is not called.
//
// Do is the circuit alone. [Call] adds thrash detection and retries.
func Do[T any](ctx context.Context, c *Circuit, f func(context.Context) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	p, err := c.Allow(ctx)
	if err != nil {
		var none T
		return none, err
	}
	returned := false
	defer func() {
		if !returned {
			abandon(p, recover())
		}
	}()
	v, err := f(ctx)
	returned = true
	if err == nil {
		if !p.counted() { // a Result costs as much as to count it
			p.Done(Result{})
		}
		return v, nil
	}
	p.Done(c.box.classify(ctx, err))
	return v, err
}

// abandon reports a call that did not return: reason is what it panicked with,
// nil if it called runtime.Goexit. A panic goes on.
func abandon(p Permit, reason any) {
	if reason == nil {
		p.Done(Result{Outcome: Canceled})
		return
	}
	p.Done(Result{Outcome: Failure, Class: ClassPanic, Err: fmt.Errorf("panic: %v", reason)})
	panic(reason)
}
