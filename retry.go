package fusebox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Retry says how a call that failed is repeated. A wholly zero Retry stands
// for [DefaultRetry]; otherwise every field means what it says, zero too.
type Retry struct {
	Attempts int           // calls at most, the first included; 1 = no retry
	Base     time.Duration // bound of the first backoff; doubles with every further one
	Max      time.Duration // bound of every backoff
	Wait     time.Duration // longest throttle that is waited out; 0 = none
	Timeout  time.Duration // time limit of each attempt; 0 = only the caller's own
	Budget   Budget
}

// Budget bounds the retries of one circuit over the last minute, so that
// retrying cannot become the amplifier of an outage.
type Budget struct {
	Ratio     float64 // retries per call, 0 to 1
	PerMinute int     // so many more, whatever the number of calls
}

// DefaultRetry returns what is built in: one retry after at most 500 ms, drawn
// on a budget of a fifth of the calls and ten a minute.
func DefaultRetry() Retry {
	return Retry{Attempts: 2, Base: 500 * time.Millisecond, Max: 8 * time.Second,
		Budget: Budget{Ratio: 0.2, PerMinute: 10}}
}

func (r Retry) orDefault() Retry {
	if r == (Retry{}) {
		return DefaultRetry()
	}
	return r
}

// Validate returns every mistake in r, joined; each is a *[PolicyError].
func (r Retry) Validate() error {
	if r == (Retry{}) {
		return nil
	}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &PolicyError{Field: "retry." + field, Want: fmt.Sprintf(format, args...)})
	}
	if r.Attempts < 1 || r.Attempts > 100 {
		bad("attempts", "want 1 to 100, have %d", r.Attempts)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"base", r.Base}, {"max", r.Max}, {"wait", r.Wait}, {"timeout", r.Timeout}} {
		if d.value < 0 {
			bad(d.field, "want a duration of 0 or more, have %v", d.value)
		}
	}
	if r.Max < r.Base {
		bad("max", "want at least base (%v), have %v", r.Base, r.Max)
	}
	if b := r.Budget; !(b.Ratio >= 0 && b.Ratio <= 1) {
		bad("budget.ratio", "want 0 to 1, have %v", b.Ratio)
	}
	if b := r.Budget; b.PerMinute < 0 {
		bad("budget.per_minute", "want 0 or more, have %d", b.PerMinute)
	}
	return errors.Join(errs...)
}

// Backoff is the wait after so many failed attempts: full jitter, uniform
// between nothing and an exponentially growing bound. random is in [0, 1).
func (r Retry) Backoff(failed int, random float64) time.Duration {
	bound := r.Base
	for range failed - 1 {
		if bound > r.Max/2 {
			break
		}
		bound *= 2
	}
	return time.Duration(float64(min(bound, r.Max)) * random)
}

// Next says whether a call may be repeated after so many attempts, the last of
// which gave res at t, and after what wait. It says no where the attempts are
// used up, where repeating cannot help (success, rejected, canceled, refused
// credentials), where the dependency asks for more time than is waited out,
// and where the wait would end after the deadline (zero = none).
func (r Retry) Next(attempts int, res Result, t, deadline time.Time) (wait time.Duration, ok bool) {
	if attempts >= r.Attempts {
		return 0, false
	}
	wait = r.Backoff(attempts, rand.Float64())
	asked := res.NotBefore.Sub(t)
	switch {
	case res.Outcome == Throttled:
		if res.NotBefore.IsZero() || asked > r.Wait {
			return 0, false
		}
	case res.Outcome != Failure || res.Class == ClassAuth:
		return 0, false
	case !res.NotBefore.IsZero() && asked > max(r.Wait, r.Max):
		return 0, false
	}
	if !res.NotBefore.IsZero() {
		wait = max(wait, asked)
	}
	if !deadline.IsZero() && !t.Add(wait).Before(deadline) {
		return 0, false
	}
	return wait, true
}

// Allowance meters a [Budget] for one circuit. It is safe for concurrent use.
type Allowance struct {
	budget Budget

	mu     sync.Mutex
	begin  time.Time // of the slots' counting
	newest int64     // number of the slot in use
	slots  [allowanceSlots]struct{ calls, retries int }
}

// The last minute in slots of five seconds.
const (
	allowanceSlots = 12
	allowanceSlot  = time.Minute / allowanceSlots
)

// NewAllowance returns a meter with nothing spent.
func NewAllowance(b Budget) *Allowance { return &Allowance{budget: b} }

// Called counts a call, retried or not: calls are what the ratio is of.
func (a *Allowance) Called(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slots[a.slot(t)].calls++
}

// Take draws one retry at t and reports whether there was one left.
func (a *Allowance) Take(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.slot(t)
	calls, retries := 0, 0
	for _, s := range a.slots {
		calls += s.calls
		retries += s.retries
	}
	if float64(retries+1) > a.budget.Ratio*float64(calls)+float64(a.budget.PerMinute) {
		return false
	}
	a.slots[now].retries++
	return true
}

// GiveBack returns a retry that was taken and not made.
func (a *Allowance) GiveBack(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.slot(t)
	for back := range allowanceSlots { // it may have been taken in an earlier slot
		s := &a.slots[(now-back+allowanceSlots)%allowanceSlots]
		if s.retries > 0 {
			s.retries--
			return
		}
	}
}

// slot moves on to t and returns the index of its slot. A clock that was set
// back stays in the newest slot.
func (a *Allowance) slot(t time.Time) int {
	if a.begin.IsZero() {
		a.begin = t
	}
	n := int64(t.Sub(a.begin) / allowanceSlot)
	for skipped := min(n-a.newest, allowanceSlots); skipped > 0; skipped-- {
		a.slots[(n-skipped+1)%allowanceSlots] = struct{ calls, retries int }{}
	}
	a.newest = max(a.newest, n)
	return int(a.newest % allowanceSlots)
}

// sleep waits for d and reports whether ctx was still alive at the end.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
