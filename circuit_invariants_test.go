package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// permit is one that the circuit must give.
func permit(t testing.TB, c *fusebox.Circuit) fusebox.Permit {
	t.Helper()
	p, err := c.Allow(t.Context())
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return p
}

// halfOpen brings a circuit to where the next call is a probe.
func halfOpen(t testing.TB, c *fusebox.Circuit) {
	t.Helper()
	fail(t, c, 3)
	wantPhase(t, c, fusebox.Open)
	time.Sleep(30*time.Second + 1)
	synctest.Wait()
}

// A throttle replaces what counts successes without a lock. A call that it let
// through before counts there, in vain.
func TestI2SuccessOfACallFromBeforeAThrottleCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
		slow := permit(t, c)
		fail(t, c, 2)
		c.Throttle(time.Now().Add(time.Second), "by hand")
		slow.Done(fusebox.Result{})
		want(t, "count after a success", c.Status().Failures, 0)
		time.Sleep(time.Second + 1)
		synctest.Wait()
		fail(t, c, 2)
		wantPhase(t, c, fusebox.Closed)
		fail(t, c, 1)
		wantPhase(t, c, fusebox.Open)
	})
}

func TestI14CallsUnderAHoldHaveNoVoteAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) {
			p.Trip = []fusebox.Trip{fusebox.Rate(0.1, time.Minute, 5)}
		})}), "model/a")
		if err := c.Hold(fusebox.Closed, time.Now().Add(time.Second), "by hand"); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			succeed(t, c)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		fail(t, c, 1)
		wantPhase(t, c, fusebox.Closed) // one failure of one result, not of five
	})
}

func TestI1ListenersSeeEachTransitionOnceInOrderAndMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		c := circuit(t, b, "model/a")
		var seen []fusebox.Transition
		b.OnTransition(func(tr fusebox.Transition) {
			seen = append(seen, tr)
			want(t, "version that a listener reads", c.Status().Version, tr.Version)
			if _, err := c.Allow(context.Background()); tr.To == fusebox.Open && !errors.Is(err, fusebox.ErrOpen) {
				t.Errorf("what a listener is told when it asks: %v", err)
			}
			panic("a listener's own mistake")
		})
		fail(t, c, 3)
		for range 20 {
			if p, err := c.Allow(t.Context()); err == nil {
				p.Done(fusebox.Result{})
			}
		}
		c.Reset("by hand")
		c.Trip("by hand")
		var steps []string
		for i, tr := range seen {
			want(t, "version", tr.Version, uint64(i+1))
			steps = append(steps, fmt.Sprintf("%v to %v, %d failures", tr.From, tr.To, tr.Failures))
		}
		want(t, "transitions", fmt.Sprint(steps), "[closed to open, 3 failures open to closed, 0 failures closed to open, 0 failures]")
	})
}

func TestI3FiftyCallersAtTheDeadlineMakeOneProbe(t *testing.T) {
	for _, allowed := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Probe.Concurrent = allowed })}), "model/a")
			halfOpen(t, c)
			var mu sync.Mutex
			probes, refused := 0, 0
			var callers sync.WaitGroup
			for range 50 {
				callers.Go(func() {
					p, err := c.Allow(t.Context())
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil && p.Probe():
						probes++
					case errors.Is(err, fusebox.ErrProbing):
						refused++
					default:
						t.Errorf("neither a probe nor refused: %v", err)
					}
				})
			}
			callers.Wait()
			want(t, "probes", probes, allowed)
			want(t, "refused", refused, 50-allowed)
		})
	}
}

func TestI4ProbesSlotComesBackFromEveryExit(t *testing.T) {
	exits := map[string]func(t *testing.T, c *fusebox.Circuit){
		"dropped": func(t *testing.T, c *fusebox.Circuit) {
			permit(t, c)
			time.Sleep(time.Minute) // the lease
		},
		"panic": func(t *testing.T, c *fusebox.Circuit) {
			defer func() {
				want(t, "what went on panicking", recover(), any("bang"))
				time.Sleep(30*time.Second + 1) // a panic is a failure: a full new cooldown
			}()
			_, _ = fusebox.Do(t.Context(), c, func(context.Context) (int, error) { panic("bang") })
		},
		"Goexit": func(t *testing.T, c *fusebox.Circuit) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = fusebox.Do(t.Context(), c, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
			}()
			<-ended
		},
		"canceled": func(t *testing.T, c *fusebox.Circuit) {
			ctx, cancel := context.WithCancel(t.Context())
			_, _ = fusebox.Do(ctx, c, func(context.Context) (int, error) { cancel(); return 0, errors.New("request aborted") })
		},
	}
	for name, exit := range exits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
				halfOpen(t, c)
				exit(t, c)
				synctest.Wait()
				p := permit(t, c)
				want(t, "the next call is a probe", p.Probe(), true)
				p.Done(fusebox.Result{})
				p.Done(fusebox.Result{Outcome: fusebox.Failure})
				wantPhase(t, c, fusebox.Closed)
			})
		})
	}
}

func TestI4OldProbesResultIsVoidAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
		halfOpen(t, c)
		old := permit(t, c)
		time.Sleep(time.Minute)
		synctest.Wait()
		next := permit(t, c)
		old.Done(fusebox.Result{})
		wantPhase(t, c, fusebox.HalfOpen)
		next.Done(fusebox.Result{Outcome: fusebox.Failure})
		wantPhase(t, c, fusebox.Open)
		old.Done(fusebox.Result{})
		wantPhase(t, c, fusebox.Open)
	})
}

func TestI5CallersWhoLeaveTripNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := fusebox.Do(ctx, c, func(context.Context) (int, error) { cancel(); return 0, errors.New("canceled") })
			want(t, "error", err.Error(), "canceled")
		}
		wantPhase(t, c, fusebox.Closed)
		want(t, "health", c.Status().Health, fusebox.Unknown)
		for range 3 { // but their deadlines are failures
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = fusebox.Do(ctx, c, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, errors.New("canceled") })
			cancel()
		}
		wantPhase(t, c, fusebox.Open)
		want(t, "class", c.Status().LastClass, fusebox.ClassTimeout)
	})
}

func TestI8ManyRefusalsDelayNoRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
		fail(t, c, 3)
		for range 60 { // a minute of 1000 a second, while a probe fails now and then
			for range 1000 {
				if p, err := c.Allow(t.Context()); err == nil {
					p.Done(fusebox.Result{Outcome: fusebox.Failure})
				}
			}
			time.Sleep(time.Second)
		}
		if denied := c.Status().Denied; denied < 59_000 {
			t.Errorf("%d denied", denied)
		}
		time.Sleep(30*time.Second + 1)
		synctest.Wait()
		succeed(t, c)
		wantPhase(t, c, fusebox.Closed)
	})
}

func TestOverdueCallsTripBeforeTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Overdue = 5 * time.Second })}), "model/a")
		var slow []fusebox.Permit
		for range 100 {
			slow = append(slow, permit(t, c))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantPhase(t, c, fusebox.Open)
		version := c.Status().Version
		for _, p := range slow {
			p.Done(fusebox.Result{})
		}
		want(t, "version after they ended", c.Status().Version, version)
	})
}

// An overdue call has voted: what it returns later is recorded and counts no
// second time, even while the circuit is still closed.
func TestOverdueCallHasOneVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) {
			p.Overdue = 5 * time.Second
			p.Trip = []fusebox.Trip{fusebox.Count(2, time.Minute)}
		})}), "model/a")
		slow := permit(t, c)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want(t, "failures once it is overdue", c.Status().Failures, 1)
		slow.Done(fusebox.Result{Outcome: fusebox.Failure})
		want(t, "failures after it has failed", c.Status().Failures, 1)
		wantPhase(t, c, fusebox.Closed)
	})
}

func TestI1AListenerMayHoldItsCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		c := circuit(t, b, "model/a")
		var seen []fusebox.Phase
		b.OnTransition(func(tr fusebox.Transition) {
			seen = append(seen, tr.To)
			if tr.To != fusebox.Open {
				return
			}
			if err := c.Hold(fusebox.Closed, time.Time{}, "it is needed"); err != nil {
				t.Error(err)
			}
			want(t, "state that the listener sees", c.State().Phase, fusebox.Closed)
		})
		fail(t, c, 3)
		want(t, "phases", fmt.Sprint(seen), "[open closed]")
		permit(t, c).Done(fusebox.Result{Outcome: fusebox.Failure})
		wantPhase(t, c, fusebox.Closed)
	})
}

// A healthy stream that ran for longer than the time to its first content was
// counted as failed.
func TestACallThatIsAnsweringIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Overdue = 5 * time.Second })}), "model/a")
		for range 5 {
			p := permit(t, c)
			time.Sleep(4 * time.Second)
			p.Answering()
			time.Sleep(time.Hour)
			p.Done(fusebox.Result{})
		}
		wantPhase(t, c, fusebox.Closed)
		want(t, "failures", c.Status().Failures, 0)
		want(t, "health", c.Status().Health, fusebox.Up)
		for range 3 { // how it ends is still its result's to tell
			p := permit(t, c)
			p.Answering()
			p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassStream})
		}
		wantPhase(t, c, fusebox.Open)
		fusebox.Permit{}.Answering()
	})
}

func TestI10WallClockStepsMoveNoDeadlineInProcess(t *testing.T) {
	c := circuit(t, newBox(t, fusebox.Config{Policy: onePolicy(nil)}), "model/a")
	start := time.Now()
	for i := range 3 {
		p, err := c.AllowAt(start.Add(time.Duration(i) * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		p.DoneAt(start.Add(time.Duration(i)*time.Second), fusebox.Result{Outcome: fusebox.Failure})
	}
	opened := start.Add(2 * time.Second)
	for _, after := range []time.Duration{0, time.Second, 30*time.Second - 1} {
		if _, err := c.AllowAt(opened.Add(after)); !errors.Is(err, fusebox.ErrOpen) {
			t.Errorf("%v after it opened: %v", after, err)
		}
	}
	if _, err := c.AllowAt(opened.Add(-time.Second)); !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("a moment that was before: %v", err)
	}
	if p, err := c.AllowAt(opened.Add(30 * time.Second)); err != nil || !p.Probe() {
		t.Errorf("at the deadline: %v", err)
	}
}
