package fusebox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	r := DefaultRetry()
	for failed, want := range map[int]time.Duration{
		1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 5: 8 * time.Second, 6: 8 * time.Second, 1000: 8 * time.Second,
	} {
		if got := r.Backoff(failed, 1); got != want {
			t.Errorf("bound after %d failures: %v, want %v", failed, got, want)
		}
		if got := r.Backoff(failed, 0.25); got != want/4 {
			t.Errorf("a quarter of it after %d failures: %v, want %v", failed, got, want/4)
		}
		if got := r.Backoff(failed, 0); got != 0 {
			t.Errorf("full jitter begins at %v, want 0", got)
		}
	}
}

func TestRetryNext(t *testing.T) {
	r := Retry{Attempts: 3, Base: time.Second, Max: 4 * time.Second, Wait: 10 * time.Second}
	failure := Result{Outcome: Failure, Class: ClassServer}
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	tests := []struct {
		name     string
		attempts int
		res      Result
		deadline time.Time
		ok       bool
		least    time.Duration
		most     time.Duration
	}{
		{"a failure", 1, failure, time.Time{}, true, 0, time.Second},
		{"a second failure", 2, failure, time.Time{}, true, 0, 2 * time.Second},
		{"attempts used up", 3, failure, time.Time{}, false, 0, 0},
		{"a success", 1, Result{}, time.Time{}, false, 0, 0},
		{"rejected", 1, Result{Outcome: Rejected}, time.Time{}, false, 0, 0},
		{"canceled", 1, Result{Outcome: Canceled}, time.Time{}, false, 0, 0},
		{"auth", 1, Result{Outcome: Failure, Class: ClassAuth}, time.Time{}, false, 0, 0},
		{"throttled for as long as can be waited", 1, Result{Outcome: Throttled, NotBefore: in(10 * time.Second)}, time.Time{}, true, 10 * time.Second, 10 * time.Second},
		{"throttled for longer", 1, Result{Outcome: Throttled, NotBefore: in(10*time.Second + 1)}, time.Time{}, false, 0, 0},
		{"throttled without a time", 1, Result{Outcome: Throttled}, time.Time{}, false, 0, 0},
		{"a failure with Retry-After", 1, Result{Outcome: Failure, NotBefore: in(3 * time.Second)}, time.Time{}, true, 3 * time.Second, 3 * time.Second},
		{"a failure with an absurd Retry-After", 1, Result{Outcome: Failure, NotBefore: in(time.Hour)}, time.Time{}, false, 0, 0},
		{"the deadline comes first", 1, Result{Outcome: Failure, NotBefore: in(3 * time.Second)}, in(3 * time.Second), false, 0, 0},
		{"the deadline leaves time", 1, Result{Outcome: Failure, NotBefore: in(3 * time.Second)}, in(4 * time.Second), true, 3 * time.Second, 3 * time.Second},
		{"the deadline is over", 1, failure, in(-time.Second), false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 50 { // the backoff is random
				wait, ok := r.Next(tt.attempts, tt.res, noon, tt.deadline)
				if ok != tt.ok || wait < tt.least || wait > tt.most {
					t.Fatalf("wait %v, %v; want %v to %v, %v", wait, ok, tt.least, tt.most, tt.ok)
				}
			}
		})
	}
}

func TestRetryValidate(t *testing.T) {
	if err := errors.Join((Retry{}).Validate(), DefaultRetry().Validate()); err != nil {
		t.Errorf("zero and default: %v", err)
	}
	bad := Retry{Attempts: 0, Base: -1, Max: -2, Wait: -1, Timeout: -1, Budget: Budget{Ratio: 1.5, PerMinute: -1}}
	err := bad.Validate()
	if !errors.Is(err, ErrPolicy) {
		t.Fatalf("got %v, want policy errors", err)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 8 {
		t.Errorf("want 8 mistakes, have:\n%v", err)
	}
}

func TestBudgetBoundsRetries(t *testing.T) {
	taken := func(a *Allowance, at time.Time, tries int) (n int) {
		for range tries {
			if a.Take(at) {
				n++
			}
		}
		return n
	}
	a := NewAllowance(Budget{Ratio: 0.2, PerMinute: 10})
	if got := taken(a, noon, 100); got != 10 {
		t.Errorf("without calls %d retries, want the 10 a minute", got)
	}
	for range 100 {
		a.Called(noon.Add(time.Second))
	}
	if got := taken(a, noon.Add(2*time.Second), 100); got != 20 {
		t.Errorf("100 calls allow %d further retries, want 20", got)
	}
	if got := taken(a, noon.Add(54*time.Second), 1); got != 0 {
		t.Error("a retry of the last minute is forgotten early")
	}
	if got := taken(a, noon.Add(66*time.Second), 100); got != 10 {
		t.Errorf("a minute later %d retries, want 10", got)
	}
	if got := taken(a, noon.Add(time.Hour), 100); got != 10 {
		t.Errorf("an hour later %d retries, want 10", got)
	}
	if got := taken(a, noon, 100); got != 0 {
		t.Errorf("a clock set back gives %d retries, want none", got)
	}
	a.GiveBack(noon.Add(time.Hour + 7*time.Second))
	if got := taken(a, noon.Add(time.Hour+8*time.Second), 100); got != 1 {
		t.Errorf("after giving one back %d retries, want 1", got)
	}
}

func TestBudgetOfZeroAllowsNoRetry(t *testing.T) {
	a := NewAllowance(Budget{})
	a.Called(noon)
	if a.Take(noon) {
		t.Error("a retry was allowed")
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if !sleep(ctx, 300*time.Millisecond) || time.Since(begin) != 300*time.Millisecond {
			t.Errorf("slept %v, want 300ms", time.Since(begin))
		}
		if sleep(ctx, time.Hour) || time.Since(begin) != time.Second {
			t.Errorf("slept until %v, want the end of the context at 1s", time.Since(begin))
		}
		if sleep(ctx, 0) {
			t.Error("a context that is over counts as alive")
		}
	})
}
