package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// backend is what a fleet calls: it works until it is broken, and counts what
// reaches it.
type backend struct {
	*httptest.Server
	working time.Duration // how long a call takes that succeeds
	failing time.Duration // and one that fails

	mu     sync.Mutex
	broken bool
	tally
	arrivals []time.Time // of calls that fail, without the probes
}

// tally is what a backend counted.
type tally struct {
	worked   int // calls that it answered while it worked
	reached  int // calls that came while it was broken, without the probes
	probes   int // that came while it was broken
	alive    int // probes under way
	together int // the most of them at once
}

const probePath = "/probe"

func startBackend(working, failing time.Duration) *backend {
	b := &backend{working: working, failing: failing}
	b.Server = httptest.NewServer(b)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	probe := r.URL.Path == probePath
	if !b.arrive(probe) {
		time.Sleep(b.working)
		return
	}
	time.Sleep(b.failing)
	if probe {
		b.mu.Lock()
		b.alive--
		b.mu.Unlock()
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// arrive counts a call, and reports whether the backend is broken.
func (b *backend) arrive(probe bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.broken:
		b.worked++
	case probe:
		b.probes++
		b.alive++
		b.together = max(b.together, b.alive)
	default:
		b.reached++
		b.arrivals = append(b.arrivals, time.Now())
	}
	return b.broken
}

// goDown breaks the backend, and returns how many calls it answered before.
func (b *backend) goDown() (worked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
	return b.worked
}

// awaitFailures waits until so many calls came that fail, half a minute at most.
func (b *backend) awaitFailures(n int) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		switch _, nth := b.fate(n); {
		case !nth.IsZero():
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("in half a minute %d calls did not reach the backend", n)
		}
	}
}

// fate is what was counted, and when the nth call came that fails; zero if
// there were fewer.
func (b *backend) fate(n int) (t tally, nth time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.arrivals) >= n {
		nth = b.arrivals[n-1]
	}
	return b.tally, nth
}

// caller returns a function that calls the backend at that address.
func caller(address string) func(probe bool) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	return func(probe bool) error {
		path := "/"
		if probe {
			path = probePath
		}
		answer, err := client.Get(address + path)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return errBroken
		}
		return nil
	}
}
