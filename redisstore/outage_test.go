//go:build unix

package redisstore

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// backend is what the workers call: it can be broken, and counts.
type backend struct {
	broken  atomic.Bool
	failed  atomic.Int64 // calls that reached it while it was broken
	probing atomic.Int64 // probes under way
	doubled atomic.Int64 // probes that began beside another
	probes  atomic.Int64
}

func (b *backend) call(w *worker) {
	permit, err := w.allow()
	if err != nil {
		return
	}
	if permit.Probe() {
		b.probes.Add(1)
		if b.probing.Add(1) > 1 {
			b.doubled.Add(1)
		}
		defer b.probing.Add(-1)
	}
	r := fusebox.Result{}
	if b.broken.Load() {
		b.failed.Add(1)
		r = fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer}
	}
	permit.Done(r)
}

// Twenty workers call a backend that breaks, while their server is killed with
// all it knew and started again. The calls that reach the broken backend stay
// near the threshold, instead of threshold times workers; probes go one at a
// time; nobody is refused because of the server; in the end all call again.
func TestOutageThroughAKilledServer(t *testing.T) {
	const workers, every, threshold = 20, 100 * time.Millisecond, 5
	s := startServer(t)
	p := coolDown(1500 * time.Millisecond)
	p.Trip = []fusebox.Trip{fusebox.Count(threshold, time.Minute).Of(2 * threshold)}
	fleet := newFleet(t, workers, s.url(), p)
	var b backend
	done := make(chan struct{})
	var calling sync.WaitGroup
	for i, w := range fleet {
		calling.Go(func() {
			tick := time.NewTicker(every + time.Duration(i)*time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-done:
					return
				case <-tick.C:
					b.call(w)
				}
			}
		})
	}
	allAre := func(phase fusebox.Phase) func() bool {
		return func() bool {
			for _, w := range fleet {
				if w.phase() != phase {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "successes are shared", func() bool { return stored(t, s.url()).Votes > 100 })

	b.broken.Store(true)
	begin := time.Now()
	eventually(t, "all stop", allAre(fusebox.Open))
	stopped, reached := time.Since(begin), b.failed.Load()
	s.kill()
	s.start()
	eventually(t, "the server knows again", func() bool { return stored(t, s.url()).Phase == fusebox.Open })
	eventually(t, "all have joined again", func() bool {
		for _, w := range fleet {
			if w.circuit.Status().Local {
				return false
			}
		}
		return b.probing.Load() == 0
	})
	b.doubled.Store(0) // who was alone with a slow restart probed for himself
	probed := b.probes.Load()
	eventually(t, "some probes failed", func() bool { return b.probes.Load() >= probed+2 })
	b.broken.Store(false)
	mended := time.Now()
	eventually(t, "all call again", allAre(fusebox.Closed))
	back := time.Since(mended)
	close(done)
	calling.Wait()

	var worst time.Duration
	for _, w := range fleet {
		worst = max(worst, time.Duration(w.worst.Load()))
	}
	t.Logf("%d calls reached the broken backend until all %d stopped, %v later; %d in all, of these %d probes, %d beside another; "+
		"all back %v after it was mended; the longest wait for a permit was %v",
		reached, workers, stopped, b.failed.Load(), b.probes.Load(), b.doubled.Load(), back, worst)
	if reached >= workers*threshold {
		t.Errorf("%d calls reached the backend; %d workers by themselves would make %d", reached, workers, workers*threshold)
	}
	if b.doubled.Load() > 0 {
		t.Errorf("%d probes began beside another", b.doubled.Load())
	}
}
