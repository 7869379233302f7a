//go:build unix

package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Whatever is wrong with the server or the way there: busy workers are not
// refused while their backend works, stop when it breaks, and call again when it
// is mended. How long their calls waited for a permit is logged.
func TestNoCallWaitsForTheStore(t *testing.T) {
	for _, fault := range []struct {
		name   string
		strike func(*server, *proxy)
	}{
		{"nothing is wrong", func(*server, *proxy) {}},
		{"slow", func(_ *server, p *proxy) { p.slow(50 * time.Millisecond) }},
		{"too slow", func(_ *server, p *proxy) { p.slow(300 * time.Millisecond) }},
		{"stopped", func(s *server, _ *proxy) { s.stop() }},
		{"killed", func(s *server, _ *proxy) { s.kill() }},
		{"killed with its data, and started", func(s *server, _ *proxy) { s.kill(); s.start() }},
		{"cut off", func(_ *server, p *proxy) { p.cutRequests(); p.cutAnswers() }},
		{"connections break", func(_ *server, p *proxy) { p.breakAfter(5000) }},
		{"somebody keeps the lock", func(s *server, _ *proxy) { s.do("SET", circuitKey("lock"), "somebody") }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s := startServer(t)
			p := startProxy(t, s.host())
			fleet := newFleet(t, 3, p.url(), policy())
			var broken atomic.Bool
			done := make(chan struct{})
			var calling sync.WaitGroup
			for _, w := range fleet {
				calling.Go(func() { w.keepCalling(done, &broken) })
			}
			all := func(what string, phases ...fusebox.Phase) {
				t.Helper()
				eventually(t, what, func() bool {
					return !slices.ContainsFunc(fleet, func(w *worker) bool { return !slices.Contains(phases, w.phase()) })
				})
			}
			fault.strike(s, p)
			passed := &fleet[0].waits.passed.calls
			eventually(t, "many calls pass", func() bool { return passed.Load() > 1000 })
			if n := fleet[0].waits.refused.calls.Load(); n > 0 {
				t.Errorf("%d calls were refused while the backend worked", n)
			}
			broken.Store(true)
			all("they stop", fusebox.Open, fusebox.HalfOpen)
			broken.Store(false)
			all("they call again", fusebox.Closed)
			close(done)
			calling.Wait()
		})
	}
}

// keepCalling makes one call after the other.
func (w *worker) keepCalling(done <-chan struct{}, broken *atomic.Bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			outcome := fusebox.Success
			if broken.Load() {
				outcome = fusebox.Failure
			}
			w.call(outcome)
		}
	}
}

// waits are how long calls waited for the answer to whether they may go.
type waits struct{ passed, refused, probes wait }

type wait struct {
	calls   atomic.Int64
	longest atomic.Int64 // nanoseconds
}

func (w *wait) add(d time.Duration) {
	w.calls.Add(1)
	for longest := w.longest.Load(); int64(d) > longest && !w.longest.CompareAndSwap(longest, int64(d)); longest = w.longest.Load() {
	}
}

func (w *waits) String() string {
	var kinds []string
	for _, kind := range []struct {
		name string
		wait *wait
	}{{"passed", &w.passed}, {"refused", &w.refused}, {"probes", &w.probes}} {
		if n := kind.wait.calls.Load(); n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s after %v at most", n, kind.name, time.Duration(kind.wait.longest.Load())))
		}
	}
	if kinds == nil {
		return "no calls"
	}
	return strings.Join(kinds, ", ")
}
