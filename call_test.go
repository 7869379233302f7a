package fusebox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// script answers call after call; the last answer stays.
type script struct {
	answers []func(context.Context) error
	made    int
}

func (s *script) next(ctx context.Context) (int, error) {
	answer := s.answers[min(s.made, len(s.answers)-1)]
	s.made++
	return s.made, answer(ctx)
}

func answers(errs ...error) *script {
	s := &script{}
	for _, err := range errs {
		s.answers = append(s.answers, func(context.Context) error { return err })
	}
	return s
}

func TestCallRetriesAndReportsOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: fusebox.Retry{Attempts: 3, Base: time.Second, Max: 4 * time.Second, Budget: fusebox.Budget{PerMinute: 10}}})
		var records []fusebox.Event
		b.OnEvidence(func(e fusebox.Event) { records = append(records, e) })
		c, r := circuit(t, b, "tool/crm"), b.Run("r")
		s := answers(errBroken, errBroken, nil)
		v, err := fusebox.Call(t.Context(), r, c, "x", s.next)
		if err != nil || v != 3 {
			t.Fatalf("have %d, %v", v, err)
		}
		if len(records) != 1 || records[0].Outcome != fusebox.Success || records[0].Attempts != 3 {
			t.Fatalf("records %+v, want one success of 3 attempts", records)
		}
		s = answers(errBroken)
		if _, err := fusebox.Call(t.Context(), r, c, "y", s.next); !errors.Is(err, errBroken) || s.made != 3 {
			t.Fatalf("have %v after %d attempts", err, s.made)
		}
		last := records[len(records)-1]
		if len(records) != 2 || last.Outcome != fusebox.Failure || last.Attempts != 3 || last.Run != "r" || last.Call == "" {
			t.Fatalf("records %+v, want one failure more, of 3 attempts, with run and call", records)
		}
	})
}

func TestCallNeverRetriesWhatRepeatingCannotMend(t *testing.T) {
	for name, err := range map[string]error{
		"rejected":     fusebox.Reject(errBroken),
		"auth":         fusebox.Fail(fusebox.ClassAuth, errBroken),
		"inner denial": fusebox.NewDenial(fusebox.DenialInfo{Reason: fusebox.ReasonOpen}),
		"throttled":    fusebox.Throttle(time.Time{}, errBroken),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, fusebox.Config{})
			s := answers(err)
			fusebox.Call(t.Context(), b.Run("r"), circuit(t, b, "tool/crm"), "x", s.next)
			if s.made != 1 {
				t.Errorf("%d attempts, want 1", s.made)
			}
		})
	}
}

func TestCallWaitsOutAShortThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := fusebox.DefaultRetry()
		retry.Wait = 5 * time.Second
		b := newBox(t, fusebox.Config{Retry: retry})
		c := circuit(t, b, "tool/crm")
		begin := time.Now()
		s := answers(fusebox.Throttle(begin.Add(2*time.Second), errBroken), nil)
		if _, err := fusebox.Call(t.Context(), b.Run("r"), c, "x", s.next); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begin); waited < 2*time.Second {
			t.Errorf("asked again after %v, want 2s", waited)
		}
	})
}

func TestCallDoesNotSleepPastTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: fusebox.Retry{Attempts: 5, Base: time.Hour, Max: time.Hour, Budget: fusebox.Budget{PerMinute: 10}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin := time.Now()
		s := answers(errBroken)
		_, err := fusebox.Call(ctx, b.Run("r"), circuit(t, b, "tool/crm"), "x", s.next)
		if !errors.Is(err, errBroken) || time.Since(begin) > time.Millisecond {
			t.Errorf("have %v after %v", err, time.Since(begin))
		}
	})
}

func TestCallEndsItsSleepWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := fusebox.Retry{Attempts: 2, Base: time.Hour, Max: time.Hour, Wait: time.Hour, Budget: fusebox.Budget{PerMinute: 1}}
		b := newBox(t, fusebox.Config{Retry: retry})
		c, r := circuit(t, b, "model/a"), b.Run("r")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		begin := time.Now()
		fusebox.Call(ctx, r, c, "x", answers(fusebox.Throttle(begin.Add(time.Hour), errBroken)).next)
		if time.Since(begin) != time.Second {
			t.Errorf("slept for %v, want until the cancel at 1s", time.Since(begin))
		}
		c.Reset("test")
		s := answers(errBroken, nil)
		if _, err := fusebox.Call(t.Context(), r, c, "y", s.next); err != nil {
			t.Errorf("the retry that was not made is spent: %v", err)
		}
	})
}

func TestEachAttemptHasItsTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := fusebox.DefaultRetry()
		retry.Timeout = time.Second
		b := newBox(t, fusebox.Config{Retry: retry})
		var last fusebox.Event
		b.OnEvidence(func(e fusebox.Event) { last = e })
		hang := &script{answers: []func(context.Context) error{func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("driver: interrupted") // a callee that hides the deadline
		}}}
		if _, err := fusebox.Call(t.Context(), b.Run("r"), circuit(t, b, "tool/crm"), "x", hang.next); err == nil || hang.made != 2 {
			t.Fatalf("have %v after %d attempts", err, hang.made)
		}
		if last.Class != fusebox.ClassTimeout || last.Attempts != 2 || last.Elapsed < 2*time.Second {
			t.Errorf("record %+v, want a timeout of 2 attempts", last)
		}
	})
}

// Scenario 32: the failover loop checked the circuit once, and then used up all
// retries on the backend that had just opened.
func TestTheCircuitIsAskedAgainBeforeEveryAttempt(t *testing.T) {
	for name, close := range map[string]func(*fusebox.Circuit){
		"tripped":   func(c *fusebox.Circuit) { c.Trip("by another call") },
		"throttled": func(c *fusebox.Circuit) { c.Throttle(time.Now().Add(time.Hour), "limit") },
		"held":      func(c *fusebox.Circuit) { c.Hold(fusebox.Open, time.Time{}, "dispute") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, fusebox.Config{Retry: fusebox.Retry{Attempts: 4, Budget: fusebox.Budget{PerMinute: 10}}})
				c := circuit(t, b, "model/a")
				s := &script{answers: []func(context.Context) error{func(context.Context) error {
					close(c)
					return errBroken
				}}}
				if _, err := fusebox.Call(t.Context(), b.Run("r"), c, "x", s.next); !errors.Is(err, errBroken) || s.made != 1 {
					t.Errorf("have %v after %d attempts, want the failure after 1", err, s.made)
				}
			})
		})
	}
}

func TestRetriesDrawOnABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retry := fusebox.Retry{Attempts: 10, Budget: fusebox.Budget{Ratio: 0.2, PerMinute: 10}}
		b := newBox(t, fusebox.Config{Retry: retry, Policy: func(string) fusebox.Policy {
			p := fusebox.DefaultPolicy("model")
			p.Trip = nil
			return p
		}})
		c := circuit(t, b, "model/a")
		s := answers(errBroken)
		for i := range 100 {
			fusebox.Call(t.Context(), b.Run(""), c, i, s.next)
		}
		if want := 100 + 20 + 10; s.made != want {
			t.Errorf("100 calls made %d attempts, want %d", s.made, want)
		}
		other := circuit(t, b, "model/b")
		o := answers(errBroken, nil)
		if _, err := fusebox.Call(t.Context(), b.Run(""), other, 1, o.next); err != nil {
			t.Errorf("another circuit pays: %v", err)
		}
	})
}

// Trap: a panic in a retry kept what it had drawn on the budget.
func TestAPanicInARetryGivesItsBudgetBack(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, fusebox.Config{Retry: fusebox.Retry{Attempts: 2, Budget: fusebox.Budget{PerMinute: 1}}})
			c, r := circuit(t, b, "model/a"), b.Run("r")
			s := &script{answers: []func(context.Context) error{
				func(context.Context) error { return errBroken },
				func(context.Context) error { leave(); return nil },
			}}
			var done sync.WaitGroup
			done.Go(func() {
				defer func() { recover() }()
				fusebox.Call(t.Context(), r, c, "x", s.next)
			})
			done.Wait()
			if s.made != 2 {
				t.Fatalf("%d attempts, want 2", s.made)
			}
			again := answers(errBroken, nil)
			if _, err := fusebox.Call(t.Context(), r, c, "y", again.next); err != nil {
				t.Errorf("the budget is gone: %v", err)
			}
		})
	}
}

func TestAPanicIsAFailureAndGoesOn(t *testing.T) {
	b := newBox(t, fusebox.Config{})
	var records []fusebox.Event
	b.OnEvidence(func(e fusebox.Event) {
		if e.Kind == fusebox.KindEvidence {
			records = append(records, e)
		}
	})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	panics := &script{answers: []func(context.Context) error{func(context.Context) error { panic("boom") }}}
	for i := range 4 {
		func() {
			defer func() {
				if got := recover(); (got == "boom") != (i < 3) {
					t.Errorf("call %d: recovered %v", i+1, got)
				}
			}()
			if _, err := fusebox.Call(t.Context(), r, c, "x", panics.next); !errors.Is(err, fusebox.ErrThrash) {
				t.Errorf("call %d: %v", i+1, err)
			}
		}()
	}
	if len(records) != 3 || records[0].Class != fusebox.ClassPanic {
		t.Errorf("records %+v, want 3 panics", records)
	}
}

// Scenarios 2, 3, 6 and 13: whatever becomes of a probe, its slot comes back.
func TestTheScarcePermitComesBackOnEveryPath(t *testing.T) {
	leave := map[string]func(ctx context.Context, cancel func()) error{
		"panic":           func(context.Context, func()) error { panic("boom") },
		"Goexit":          func(context.Context, func()) error { runtime.Goexit(); return nil },
		"caller's cancel": func(ctx context.Context, cancel func()) error { cancel(); return errors.New("stopped") },
		"throttled":       func(context.Context, func()) error { return fusebox.Throttle(time.Now().Add(time.Second), errBroken) },
		"inner denial": func(context.Context, func()) error {
			return fusebox.NewDenial(fusebox.DenialInfo{Reason: fusebox.ReasonOpen})
		},
	}
	for name, f := range leave {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
				c, r := circuit(t, b, "model/a"), b.Run("r")
				c.Trip("test")
				time.Sleep(30*time.Second + 1)
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var done sync.WaitGroup
				done.Go(func() {
					defer func() { recover() }()
					fusebox.Call(ctx, r, c, "x", func(ctx context.Context) (int, error) { return 0, f(ctx, cancel) })
				})
				done.Wait()
				time.Sleep(30*time.Second + 1)
				synctest.Wait()
				if _, err := fusebox.Call(t.Context(), r, c, "y", answers(nil).next); err != nil {
					t.Fatalf("the next probe: %v", err)
				}
				wantPhase(t, c, fusebox.Closed)
			})
		})
	}
}

func TestThrashDoesNotTakeTheProbesSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil), Retry: once})
		c, r := circuit(t, b, "tool/crm"), b.Run("r")
		be := backend{answer: alwaysFails}
		for range 3 {
			be.call(t, r, c, "1")
		}
		time.Sleep(30*time.Second + 1)
		synctest.Wait()
		for range 5 {
			be.call(t, r, c, "1")
		}
		if err := (&backend{answer: func(string) error { return nil }}).call(t, b.Run("another"), c, "1"); err != nil {
			t.Errorf("the probe: %v", err)
		}
	})
}

func TestAProbeHasItsOwnAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{
			Policy: onePolicy(func(p *fusebox.Policy) { p.Probe.Attempts = 2 }),
			Retry:  fusebox.Retry{Attempts: 5, Budget: fusebox.Budget{PerMinute: 100}},
		})
		c, r := circuit(t, b, "model/a"), b.Run("r")
		c.Trip("test")
		time.Sleep(30*time.Second + 1)
		synctest.Wait()
		s := answers(errBroken)
		fusebox.Call(t.Context(), r, c, "x", s.next)
		if s.made != 2 {
			t.Errorf("the probe made %d attempts, want 2", s.made)
		}
		wantPhase(t, c, fusebox.Open)
	})
}

func TestACallerWhoIsGoneMakesNoCall(t *testing.T) {
	b := newBox(t, fusebox.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := answers(nil)
	if _, err := fusebox.Call(ctx, b.Run("r"), circuit(t, b, "tool/crm"), "x", s.next); !errors.Is(err, context.Canceled) || s.made != 0 {
		t.Errorf("have %v after %d attempts", err, s.made)
	}
	if got := b.Run("r").Outcome(); got != fusebox.RunComplete {
		t.Errorf("outcome %s", got)
	}
}

// Scenario 7: users who navigate away tripped a healthy backend.
func TestTheCallersCancelIsNoEvidence(t *testing.T) {
	b := newBox(t, fusebox.Config{})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := fusebox.Call(ctx, r, c, "x", func(context.Context) (int, error) {
			cancel()
			return 0, errors.New("driver: canceled")
		})
		if fusebox.AsDenial(err) != nil {
			t.Fatal(err)
		}
	}
	wantPhase(t, c, fusebox.Closed)
}

func TestAttemptMayBeTheCircuitsUnit(t *testing.T) {
	b := newBox(t, fusebox.Config{
		Policy: onePolicy(nil),
		Retry:  fusebox.Retry{Attempts: 10, Budget: fusebox.Budget{PerMinute: 100}},
		Guard:  func(string) fusebox.Guard { return fusebox.Guard{PerAttempt: true} },
	})
	c, r := circuit(t, b, "model/a"), b.Run("r")
	s := answers(errBroken)
	fusebox.Call(t.Context(), r, c, "x", s.next)
	if s.made != 3 {
		t.Errorf("%d attempts, want the 3 that open the circuit", s.made)
	}
	wantPhase(t, c, fusebox.Open)
	if n := c.Status().Failures; n != 3 {
		t.Errorf("opened by %d failures, want 3", n)
	}
}

func TestOnOpenStopRun(t *testing.T) {
	b := newBox(t, fusebox.Config{
		Retry: once, Policy: onePolicy(nil),
		Guard: func(name string) fusebox.Guard { return fusebox.Guard{StopRun: name == "tool/crm"} },
	})
	crm, search, r := circuit(t, b, "tool/crm"), circuit(t, b, "tool/search"), b.Run("r")
	crm.Trip("test")
	err := (&backend{}).call(t, r, crm, "1")
	if d := fusebox.AsDenial(err); !errors.Is(err, fusebox.ErrOpen) || d.RetryAfter() == 0 {
		t.Fatalf("the call itself: %v", err)
	}
	if err := (&backend{}).call(t, r, search, "1"); !errors.Is(err, fusebox.ErrStuck) {
		t.Errorf("another tool: %v, want stuck", err)
	}
	if got := r.End(); got != fusebox.RunFailed {
		t.Errorf("outcome %s, want failed", got)
	}
}

func TestRunOutcomes(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c := circuit(t, b, "tool/crm")
	ended := map[string]fusebox.RunOutcome{}
	b.OnNotice(func(n fusebox.Notice) {
		if n.Kind == fusebox.NoticeEnded {
			ended[n.Run] = n.Outcome
		}
	})
	fine := func(string) error { return nil }
	tests := []struct {
		name  string
		calls []func(string) error
		want  fusebox.RunOutcome
	}{
		{"nothing", nil, fusebox.RunComplete},
		{"worked", []func(string) error{fine, fine}, fusebox.RunComplete},
		{"mended", []func(string) error{alwaysRejects, fine}, fusebox.RunComplete},
		{"given-up", []func(string) error{fine, alwaysRejects}, fusebox.RunDegraded},
		{"denied", []func(string) error{alwaysRejects, alwaysRejects, alwaysRejects, alwaysRejects}, fusebox.RunDegraded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := b.Run(tt.name)
			for _, answer := range tt.calls {
				(&backend{answer: answer}).call(t, r, c, "1")
			}
			if got := r.End(); got != tt.want || ended[tt.name] != tt.want {
				t.Errorf("outcome %s, notice %s, want %s", got, ended[tt.name], tt.want)
			}
			if tt.want != fusebox.RunFailed && b.Run(tt.name) == r {
				t.Error("an ended run is still remembered")
			}
		})
	}
}

func TestQuorumTellsThinFromFull(t *testing.T) {
	denied := fusebox.NewDenial(fusebox.DenialInfo{Reason: fusebox.ReasonOpen})
	tests := []struct {
		name    string
		members []error
		met     bool
		thin    bool
		text    string
	}{
		{"full", []error{nil, nil, nil}, true, false, "3 of 3 answered (need 2)"},
		{"thin", []error{nil, denied, nil, denied}, true, true, "2 of 4 answered, 2 denied (need 2)"},
		{"thin by failure", []error{nil, nil, errBroken}, true, true, "2 of 3 answered, 1 failed (need 2)"},
		{"too few", []error{nil, denied, errBroken}, false, false, "1 of 3 answered, 1 denied, 1 failed (need 2)"},
		{"none", nil, false, false, "0 of 0 answered (need 2)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newBox(t, fusebox.Config{}).Run("r").Quorum(2)
			for _, err := range tt.members {
				if q.Add(err) != err {
					t.Error("Add does not return the error")
				}
			}
			tally := q.Tally()
			if tally.Met() != tt.met || tally.Thin() != tt.thin || tally.String() != tt.text {
				t.Errorf("met %v, thin %v, %q; want %v, %v, %q", tally.Met(), tally.Thin(), tally, tt.met, tt.thin, tt.text)
			}
			if err := tally.Err(); errors.Is(err, fusebox.ErrQuorum) == tt.met {
				t.Errorf("error %v", err)
			}
		})
	}
}

// The retry loop's numbers: see the story of that name.
func TestRetryLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Retry: once})
		crm := circuit(t, b, "tool/crm_lookup")
		reached := 0
		down := true
		lookup := func(r *fusebox.Run, id int) error {
			_, err := fusebox.Call(t.Context(), r, crm, map[string]int{"id": id}, func(context.Context) (string, error) {
				reached++
				if down {
					return "", fusebox.Fail(fusebox.ClassServer, errors.New("503"))
				}
				return "found", nil
			})
			return err
		}

		same := b.Run("same arguments")
		for range 8 {
			lookup(same, 4521)
		}
		if reached != 3 {
			t.Errorf("identical arguments: %d calls reached the CRM, want 3", reached)
		}
		wantPhase(t, crm, fusebox.Closed)
		crm.Reset("next part")

		reached = 0
		different := b.Run("different arguments")
		for id := range 8 {
			lookup(different, id)
		}
		if reached != 3 {
			t.Errorf("different arguments: %d calls reached the CRM, want 3", reached)
		}
		wantPhase(t, crm, fusebox.Open)

		time.Sleep(time.Minute)
		synctest.Wait()
		down, reached = false, 0
		var waiting, over sync.WaitGroup
		waiting.Add(1)
		release := make(chan struct{})
		over.Go(func() {
			fusebox.Call(t.Context(), different, crm, "probe", func(context.Context) (int, error) {
				reached++
				waiting.Done()
				<-release
				return 0, nil
			})
		})
		waiting.Wait()
		for id := range 5 {
			if err := lookup(b.Run(""), id); !errors.Is(err, fusebox.ErrProbing) {
				t.Errorf("beside the probe: %v, want probing", err)
			}
		}
		close(release)
		over.Wait()
		if reached != 1 {
			t.Errorf("%d probes, want 1", reached)
		}
		wantPhase(t, crm, fusebox.Closed)
		if err := lookup(different, 1); err != nil {
			t.Errorf("after the recovery: %v", err)
		}
	})
}

func TestRunInVirtualTime(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c, r := circuit(t, b, "tool/crm"), b.Run("r")
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	rejected := fusebox.Result{Outcome: fusebox.Rejected, Err: errBroken}
	reached := 0
	for range 60 {
		at = at.Add(15 * time.Second)
		p, err := r.AllowAt(at, c, "x")
		if err != nil {
			if d := fusebox.AsDenial(err); d.RetryAfter() <= 0 || d.RetryAfter() > 10*time.Minute {
				t.Fatalf("retry after %v", d.RetryAfter())
			}
			continue
		}
		reached++
		p.DoneAt(at.Add(time.Second), rejected)
	}
	if reached != 6 {
		t.Errorf("%d calls in 15 minutes, want 3 and, after 10 minutes, 3 more", reached)
	}
}

func TestRunsConcurrently(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once})
	c := circuit(t, b, "model/a")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				r := b.Run([]string{"a", "b", "c"}[n%3])
				s := answers([]error{nil, fusebox.Reject(errBroken), errBroken}[(n+i)%3])
				fusebox.Call(t.Context(), r, c, n%7, s.next)
				r.Status()
				if n%50 == 49 {
					r.Reset("test")
					r.End()
				}
			}
		})
	}
	all.Wait()
	b.Runs()
}

func BenchmarkCall(b *testing.B) {
	box := newBox(b, fusebox.Config{})
	c, r := circuit(b, box, "tool/crm/lookup"), box.Run("r")
	args := map[string]any{"id": 4521, "fields": []string{"name", "status"}}
	f := func(context.Context) (int, error) { return 1, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fusebox.Call(b.Context(), r, c, args, f); err != nil {
			b.Fatal(err)
		}
	}
}

// TestARefusalBehindTheToolCountsForTheRun: a tool is fine, the server that it
// is on is not. The run hears of the server, is not sent to the server's other
// tools, and is stopped if it goes on.
func TestARefusalBehindTheToolCountsForTheRun(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: once, Thrash: fusebox.Thrash{Repeats: 3, StopAfter: 4, Forget: time.Minute}})
	server, run := circuit(t, b, "server/crm"), b.Run("r")
	tool := circuit(t, b, "tool/crm/lookup")
	for _, works := range []string{"tool/crm/list", "tool/search/find"} {
		p, err := run.Allow(t.Context(), circuit(t, b, works), nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Done(fusebox.Result{})
	}
	server.Trip("maintenance")
	refuse := func(i int) *fusebox.Denial {
		p, err := run.Allow(t.Context(), tool, map[string]int{"id": i})
		if err != nil {
			return fusebox.AsDenial(err)
		}
		_, err = server.Allow(t.Context())
		p.Done(fusebox.Result{Outcome: fusebox.Canceled})
		return fusebox.AsDenial(run.Refused(tool, fusebox.AsDenial(err)))
	}
	for i := range 4 {
		d := refuse(i)
		if d.Circuit() != "server/crm" || d.Run() != "r" || !errors.Is(d, fusebox.ErrOpen) {
			t.Errorf("have %v of %s for run %q", d, d.Circuit(), d.Run())
		}
		if i == 1 && (!strings.Contains(d.Instruction(), "search/find") || strings.Contains(d.Instruction(), "crm/list")) {
			t.Errorf("it sends the run to the wrong tools: %s", d.Instruction())
		}
	}
	if d := refuse(4); !errors.Is(d, fusebox.ErrStuck) {
		t.Errorf("have %v after four refusals, want stuck", d)
	}
	wantPhase(t, tool, fusebox.Closed)
}

// A front that chooses among circuits by itself tells the run what it needs to
// know: what was refused, and that something worked.
func TestARunHearsOfCallsMadeElsewhere(t *testing.T) {
	b := newBox(t, fusebox.Config{Thrash: fusebox.Thrash{Repeats: 3, StopAfter: 3, Forget: time.Minute}})
	model, run := circuit(t, b, "model/a/m"), b.Run("r")
	model.Trip("test")
	_, err := model.Allow(t.Context())
	refuse := func(times int) {
		for range times {
			run.Refused(model, fusebox.AsDenial(err))
		}
	}
	refuse(2)
	run.Note(model, fusebox.Success)
	refuse(2)
	run.Note(model, fusebox.Failure)
	run.Note(model, fusebox.Throttled)
	if err := run.Check(t.Context()); err != nil {
		t.Fatalf("two refusals after a success: %v", err)
	}
	refuse(1)
	d := fusebox.AsDenial(run.Check(t.Context()))
	if d == nil || !errors.Is(d, fusebox.ErrStuck) || d.Run() != "r" || !strings.Contains(d.Instruction(), "after 3 refusals") {
		t.Fatalf("three refusals in a row: %v", d)
	}
	if s := circuit(t, b, "run/r").Status(); s.Denied != 1 { // since it is stuck
		t.Errorf("the run's record says %d denied", s.Denied)
	}
	if n := model.Status().Denied; n != 1 {
		t.Errorf("the model's circuit says %d denied; it was asked once", n)
	}
	run.Reset("test")
	if err := run.Check(t.Context()); err != nil || run.Outcome() != fusebox.RunDegraded {
		t.Errorf("let go: %v, %v", err, run.Outcome())
	}
	clean := b.Run("clean")
	clean.Note(model, fusebox.Failure)
	if got := clean.Outcome(); got != fusebox.RunDegraded {
		t.Errorf("a call failed and was given up: %v", got)
	}
	clean.Note(model, fusebox.Success)
	if got := clean.Outcome(); got != fusebox.RunComplete {
		t.Errorf("it worked in the end: %v", got)
	}
}

func TestAServerThatARunCannotDoWithoutStopsIt(t *testing.T) {
	b := newBox(t, fusebox.Config{Guard: func(name string) fusebox.Guard { return fusebox.Guard{StopRun: name == "server/crm"} }})
	server, tool, run := circuit(t, b, "server/crm"), circuit(t, b, "tool/crm/lookup"), b.Run("r")
	server.Trip("maintenance")
	_, err := server.Allow(t.Context())
	run.Refused(tool, fusebox.AsDenial(err))
	if !run.Stuck() {
		t.Error("the run goes on")
	}
}
