package fusebox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

func newBox(t testing.TB, cfg fusebox.Config) *fusebox.Box {
	t.Helper()
	b, err := fusebox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// onePolicy gives every circuit the same policy.
func onePolicy(change func(*fusebox.Policy)) func(string) fusebox.Policy {
	p := fusebox.DefaultPolicy("model")
	p.Trip = []fusebox.Trip{fusebox.Streak(3)}
	p.Cooldown = fusebox.Cooldown{After: 30 * time.Second, Growth: 1}
	if change != nil {
		change(&p)
	}
	return func(string) fusebox.Policy { return p }
}

func circuit(t testing.TB, b *fusebox.Box, name string) *fusebox.Circuit {
	t.Helper()
	c, err := b.Circuit(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errBroken = errors.New("broken")

// fail makes n failing calls that the circuit must allow.
func fail(t testing.TB, c *fusebox.Circuit, n int) {
	t.Helper()
	for range n {
		p, err := c.Allow(t.Context())
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: errBroken})
	}
}

func succeed(t testing.TB, c *fusebox.Circuit) {
	t.Helper()
	p, err := c.Allow(t.Context())
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	p.Done(fusebox.Result{})
}

func wantPhase(t testing.TB, c *fusebox.Circuit, want fusebox.Phase) {
	t.Helper()
	if got := c.Status().Phase; got != want {
		t.Fatalf("phase %v, want %v", got, want)
	}
}

func TestCircuitOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		c := circuit(t, b, "model/a/b")
		var seen []fusebox.Transition
		b.OnTransition(func(tr fusebox.Transition) { seen = append(seen, tr) })
		fail(t, c, 2)
		succeed(t, c)
		fail(t, c, 3)
		wantPhase(t, c, fusebox.Open)
		if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("have %v, want ErrOpen", err)
		}
		time.Sleep(30*time.Second + 1)
		synctest.Wait()
		p, err := c.Allow(t.Context())
		if err != nil || !p.Probe() {
			t.Fatalf("want a probe, have %v", err)
		}
		if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrProbing) {
			t.Fatalf("have %v, want ErrProbing", err)
		}
		p.Done(fusebox.Result{})
		wantPhase(t, c, fusebox.Closed)
		if len(seen) != 3 || seen[0].Failures != 3 || seen[2].Version != 3 {
			t.Fatalf("transitions: %+v", seen)
		}
	})
}

func TestStoreSharesCircuits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fusebox.NewMemory()
		cfg := fusebox.Config{Policy: onePolicy(nil), Store: store}
		one, two := newBox(t, cfg), newBox(t, cfg)
		a, z := circuit(t, one, "model/a"), circuit(t, two, "model/a")
		fail(t, a, 3)
		wantPhase(t, a, fusebox.Open)
		synctest.Wait()
		wantPhase(t, z, fusebox.Open)

		time.Sleep(31 * time.Second)
		synctest.Wait()
		probe, err := z.Allow(t.Context())
		if err != nil || !probe.Probe() {
			t.Fatalf("want the probe, have %v", err)
		}
		if _, err := a.Allow(t.Context()); !errors.Is(err, fusebox.ErrProbing) {
			t.Fatalf("a second probe in the fleet: %v", err)
		}
		probe.Done(fusebox.Result{})
		synctest.Wait()
		wantPhase(t, a, fusebox.Closed)
		wantPhase(t, z, fusebox.Closed)
	})
}

func BenchmarkAllowDone(b *testing.B) {
	for name, trip := range map[string]fusebox.Trip{
		"streak": fusebox.Streak(5), "count": fusebox.Count(5, time.Minute), "of": fusebox.Count(5, time.Minute).Of(10),
		"rate": fusebox.Rate(0.5, time.Minute, 20), "slow": fusebox.Slow(0.5, time.Second, time.Minute, 20),
	} {
		b.Run(name, func(b *testing.B) {
			box := newBox(b, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{trip} })})
			c := circuit(b, box, "model/a")
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				p, err := c.Allow(ctx)
				if err != nil {
					b.Fatal(err)
				}
				p.Done(fusebox.Result{})
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			box := newBox(b, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{trip} })})
			c := circuit(b, box, "model/a")
			ctx := b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, _ := c.Allow(ctx)
					p.Done(fusebox.Result{})
				}
			})
		})
	}
}

func BenchmarkRefusal(b *testing.B) {
	box := newBox(b, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Cooldown.After = time.Hour })})
	c := circuit(b, box, "model/a")
	fail(b, c, 3)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Allow(ctx); err == nil {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkDo(b *testing.B) {
	box := newBox(b, fusebox.Config{Policy: onePolicy(nil)})
	c := circuit(b, box, "model/a")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fusebox.Do(ctx, c, func(context.Context) (int, error) { return 1, nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFailure(b *testing.B) {
	box := newBox(b, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) {
		p.Trip = []fusebox.Trip{fusebox.Count(1000, time.Nanosecond*1e6).Of(1000)}
	})})
	c := circuit(b, box, "model/a")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Allow(ctx)
		if err != nil {
			b.Fatal(err)
		}
		p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassReset, Err: errBroken})
		succeed(b, c)
	}
}

// A call at a time before the box was made, as in a story or a simulation, took
// as long as its two times say: it once took no time at all, and so a failure
// after an hour was taken for a fast one.
func TestElapsedAtTimesBeforeTheBox(t *testing.T) {
	b := newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) {
		p.Trip, p.FasterThan = []fusebox.Trip{fusebox.Streak(1)}, time.Minute
	})})
	for _, tt := range []struct {
		name string
		took time.Duration
		want fusebox.Phase
	}{
		{"slow", time.Hour, fusebox.Closed},
		{"fast", time.Second, fusebox.Open},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := circuit(t, b, "session/"+tt.name)
			start := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
			p, err := c.AllowAt(start)
			if err != nil {
				t.Fatal(err)
			}
			p.DoneAt(start.Add(tt.took), fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash})
			if s := c.State(); s.Phase != tt.want {
				t.Errorf("a failure after %v: %v, want %v", tt.took, s.Phase, tt.want)
			}
		})
	}
}

func TestLastResortOfACircuitThatClosedMeanwhileIsAnOrdinaryCall(t *testing.T) {
	b := newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Cooldown.After = time.Hour })})
	c := circuit(t, b, "model/a")
	fail(t, c, 3)
	c.Reset("mended")
	p, err := c.LastResort(t.Context())
	if err != nil || p.Probe() {
		t.Fatalf("have %v, probe %v", err, p.Probe())
	}
	p.Done(fusebox.Result{})
	fail(t, c, 3)
	if p, err = c.LastResort(t.Context()); err != nil || !p.Probe() {
		t.Fatalf("have %v, want the last resort", err)
	}
	p.Done(fusebox.Result{Outcome: fusebox.Failure})
	if _, err := c.LastResort(t.Context()); !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("a second last resort in one cooldown: %v", err)
	}
}

// A backend's wish to be left alone is no vote: it holds also when the call is
// from before the circuit's last transition.
func TestLateThrottleIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		c := circuit(t, b, "model/a")
		old, err := c.Allow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Trip("test")
		c.Reset("test")
		old.Done(fusebox.Result{Outcome: fusebox.Throttled, NotBefore: time.Now().Add(time.Minute)})
		if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrThrottled) {
			t.Errorf("have %v, want ErrThrottled", err)
		}
	})
}

// A caller that waited as long as a denial said must get through, also when the
// timer that wakes the circuit comes late. Once a short throttle that was waited
// out was found still refusing, and the call went to the next backend.
func TestWaitingAsLongAsTheDenialSaysIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		for name, refuse := range map[string]func(*fusebox.Circuit){
			"model/open":      func(c *fusebox.Circuit) { fail(t, c, 3) },
			"model/throttled": func(c *fusebox.Circuit) { c.Throttle(time.Now().Add(150*time.Millisecond), "asked for") },
		} {
			c := circuit(t, b, name)
			refuse(c)
			_, err := c.Allow(t.Context())
			d := fusebox.AsDenial(err)
			if d == nil {
				t.Fatalf("%s: not refused", name)
			}
			time.Sleep(d.RetryAfter())
			if _, err := c.Allow(t.Context()); err != nil {
				t.Errorf("%s: refused after the time that it named: %v", name, err)
			}
		}
	})
}

// A probe may be a stream that is longer than its lease.
func TestProbeThatIsRenewedKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Probe.Lease = time.Minute })})
		c := circuit(t, b, "model/a")
		fail(t, c, 3)
		time.Sleep(30 * time.Second)
		probe, err := c.Allow(t.Context())
		if err != nil || !probe.Probe() {
			t.Fatalf("want a probe, have %v", err)
		}
		for range 10 {
			time.Sleep(30 * time.Second)
			probe.Renew()
			if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrProbing) {
				t.Fatalf("have %v, want ErrProbing", err)
			}
		}
		probe.Done(fusebox.Result{})
		wantPhase(t, c, fusebox.Closed)
		probe.Renew() // it is over: nothing happens
		wantPhase(t, c, fusebox.Closed)
	})
}

// Metrics are read after a flush: what another goroutine is just telling the
// listeners must have been told by then.
func TestFlushWaitsForTheListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, fusebox.Config{Policy: onePolicy(nil)})
		c := circuit(t, b, "model/a")
		heard := false
		b.OnTransition(func(fusebox.Transition) {
			time.Sleep(time.Second)
			heard = true
		})
		go c.Trip("test")
		synctest.Wait()
		if err := b.Flush(t.Context()); err != nil || !heard {
			t.Errorf("flushed before the listener had heard, error %v", err)
		}
	})
}
