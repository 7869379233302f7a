//go:build unix

package redisstore

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// backend is what the workers' processes call over HTTP: it can be broken, and
// counts.
type backend struct {
	latency time.Duration
	nth     int // failure whose end is noted

	mu      sync.Mutex
	broken  bool
	failing int // calls under way that fail
	probing int // probes under way, with a lease of the store's
	seen    counts
}

// counts are what a backend has seen so far.
type counts struct {
	worked  int // calls that ended well
	failed  int // calls, probes apart, that reached it while it was broken
	ended   int // of these
	most    int // of these, at once
	nth     time.Time
	probes  int
	doubled int // probes that began beside another, both with a lease of the store's
	alone   int // probes of who had lost the store
}

func startBackend(t *testing.T, latency time.Duration, nth int) (b *backend, url string) {
	b = &backend{latency: latency, nth: nth}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	return b, s.URL
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe, local := r.FormValue("probe") == "true", r.FormValue("local") == "true"
	broken := b.begin(probe, local)
	<-time.After(b.latency)
	if b.end(broken, probe, local); broken {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (b *backend) begin(probe, local bool) (broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case probe && local:
		b.seen.probes++
		b.seen.alone++
	case probe:
		b.seen.probes++
		if b.probing++; b.probing > 1 {
			b.seen.doubled++
		}
	case b.broken:
		b.seen.failed++
		b.failing++
		b.seen.most = max(b.seen.most, b.failing)
	}
	return b.broken
}

func (b *backend) end(broken, probe, local bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe && !local {
		b.probing--
	}
	switch {
	case !broken:
		b.seen.worked++
	case !probe:
		b.failing--
		if b.seen.ended++; b.seen.ended == b.nth {
			b.seen.nth = time.Now()
		}
	}
}

// set breaks or mends the backend.
func (b *backend) set(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

func (b *backend) counts() counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// Twenty processes call a backend through one circuit. Their server is killed
// with all it knew, first while the backend works, then while it is broken. No
// call is refused because of the server. The calls that reach the broken backend
// stay within the threshold, those under way, and those that are made until the
// last has heard: far from threshold times workers. Probes go one at a time. All
// come back to the shared view, and in the end all call again.
func TestOutageThroughAKilledServer(t *testing.T) {
	const workers, every, latency, threshold, cooldown = 20, 400 * time.Millisecond, 20 * time.Millisecond, 5, 2 * time.Second
	s := startServer(t)
	b, url := startBackend(t, latency, threshold)
	p := coolDown(cooldown)
	p.Trip = []fusebox.Trip{fusebox.Count(threshold, time.Minute)}
	c := startCrew(t, workers, task{Store: s.url(), Backend: url, Every: every, Policy: p})
	joined := func(a account) bool { return !a.Local }
	c.all("the fleet shares", joined)
	eventually(t, "all call", func() bool { return b.counts().worked >= 2*workers })

	s.kill()
	c.all("all have lost the server", func(a account) bool { return a.Local })
	s.start()
	t.Logf("the server is back while the backend works: all have joined again after %v", c.all("all have joined again", joined))
	if n := c.refused(); n > 0 {
		t.Errorf("%d calls were refused while the backend worked", n)
	}

	b.set(true)
	c.all("all stop", func(a account) bool { return a.Phase != fusebox.Closed && !a.Calling })
	seen := b.counts()
	var heard time.Duration
	for _, a := range c.accounts() {
		heard = max(heard, a.Opened.Sub(seen.nth))
	}
	expected := float64(threshold+seen.most) + workers*heard.Seconds()/every.Seconds()
	most := threshold + seen.most + workers*int((heard+every-1)/every) // each makes whole calls
	t.Logf("%d calls reached the broken backend, %d at once; the last worker heard %v after the %dth had failed: "+
		"that makes %.1f expected, %d at most, and %d without a store", seen.failed, seen.most, heard, threshold, expected, most, workers*threshold)
	if seen.failed > most || seen.failed >= workers*threshold {
		t.Errorf("%d calls reached the broken backend, want %d at most", seen.failed, most)
	}

	s.kill()
	s.start()
	restarted := time.Now()
	eventually(t, "the server knows again", func() bool { return stored(t, s.url()).Phase != fusebox.Closed })
	t.Logf("the server that had lost everything knew %v after its restart", time.Since(restarted))
	c.all("all have joined again", joined)
	probed := b.counts().probes
	eventually(t, "some probes fail", func() bool { return b.counts().probes >= probed+2 })
	if n := b.counts().failed - seen.failed; n > 0 {
		t.Errorf("%d calls reached the broken backend beside the probes, after all had stopped", n)
	}

	b.set(false)
	t.Logf("all call again %v after the backend is mended, with a cooldown of %v",
		c.all("all call again", func(a account) bool { return a.Phase == fusebox.Closed && !a.Local }), cooldown)
	refused, worked := c.refused(), b.counts().worked
	eventually(t, "all call", func() bool { return b.counts().worked >= worked+3*workers })
	var worst time.Duration
	for i, a := range c.accounts() {
		worst = max(worst, a.Worst)
		if other := a.Refused[fusebox.ReasonHeld] + a.Refused[fusebox.ReasonThrottled]; other > 0 {
			t.Errorf("worker %d: refusals %v, want those of an open circuit", i, a.Refused)
		}
	}
	if n := c.refused() - refused; n > 0 {
		t.Errorf("%d calls were refused after all had begun again", n)
	}
	seen = b.counts()
	t.Logf("%d probes, %d of workers without the server, %d beside another; the longest wait for a permit was %v",
		seen.probes, seen.alone, seen.doubled, worst)
	if seen.doubled > 0 {
		t.Errorf("%d probes began beside another", seen.doubled)
	}
}
