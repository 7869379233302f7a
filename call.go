package fusebox

import (
	"context"
	"fmt"
)

// call is Call without its type.
func (r *Run) call(ctx context.Context, c *Circuit, args any, f func(context.Context) error) error {
	p, err := r.Allow(ctx, c, args)
	if err != nil {
		return err
	}
	g := c.guarded()
	g.allowance.Called(r.box.now())
	a := attempts{ctx: ctx, permit: p, guarded: g, retry: r.box.runs.retry, f: f}
	if n := c.policy.Load().Probe.Attempts; n > 0 && p.Probe() {
		a.retry.Attempts = min(a.retry.Attempts, n)
	}
	defer func() {
		if !a.returned {
			a.abandon(recover())
		}
	}()
	err = a.run()
	a.returned = true
	a.result.Attempts = a.made
	p.done(r.box.now(), true, a.result, !a.told)
	return err
}

// attempts makes one call: f, repeated while that is worth it.
type attempts struct {
	ctx      context.Context
	permit   RunPermit
	guarded  *guarded
	retry    Retry
	f        func(context.Context) error
	made     int
	result   Result // of the last attempt
	taken    bool   // the running attempt is drawn on the budget
	told     bool   // the circuit knows the result of the last attempt
	returned bool   // f has, and with it call
}

// run returns the error of the last attempt.
func (a *attempts) run() error {
	for {
		err := a.attempt()
		a.taken = false
		if err == nil || !a.again() {
			return err
		}
	}
}

// attempt calls f once, within its time limit.
func (a *attempts) attempt() error {
	ctx, cancel := a.ctx, context.CancelFunc(func() {})
	if limit := a.retry.Timeout; limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	a.made++
	err := a.f(ctx)
	a.result = Result{}
	if err != nil {
		a.result = a.permit.run.box.classify(ctx, err)
	}
	if a.guarded.PerAttempt {
		a.tell(a.result)
	}
	return err
}

// tell reports one attempt to the circuit, where that is the unit.
func (a *attempts) tell(res Result) {
	res.Run, res.Call = a.permit.run.id, a.permit.call
	a.permit.permit.Done(res)
	a.told = true
}

// again reports whether the call is to be repeated, after having waited: what
// failed can be repeated, there is time, the budget has something left and the
// circuit still lets it through.
func (a *attempts) again() bool {
	box := a.permit.run.box
	t := box.now()
	deadline, _ := a.ctx.Deadline()
	wait, ok := a.retry.Next(a.made, a.result, t, deadline)
	if !ok || !a.guarded.allowance.Take(t) {
		return false
	}
	if sleep(a.ctx, wait) && a.admitted() {
		a.taken = true
		return true
	}
	a.guarded.allowance.GiveBack(box.now())
	return false
}

// admitted asks the circuit again.
func (a *attempts) admitted() bool {
	if !a.told {
		return a.permit.Valid()
	}
	p, err := a.permit.circuit.Allow(a.ctx)
	if err != nil {
		return false
	}
	a.permit.permit, a.told = p, false
	return true
}

// abandon reports a call that did not return: reason is what f panicked with,
// nil if it called runtime.Goexit. A panic goes on.
func (a *attempts) abandon(reason any) {
	now := a.permit.run.box.now()
	if a.taken {
		a.guarded.allowance.GiveBack(now)
	}
	res := Result{Outcome: Canceled, Attempts: a.made}
	if reason != nil {
		res = Result{Outcome: Failure, Class: ClassPanic, Err: fmt.Errorf("panic: %v", reason), Attempts: a.made}
	}
	a.permit.done(now, true, res, !a.told)
	if reason != nil {
		panic(reason)
	}
}
