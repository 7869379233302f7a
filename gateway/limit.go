package gateway

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Limit bounds what is asked of a backend, whatever the clients want; 0 = no
// bound. A call beyond it goes to the next backend, as if this one had throttled
// it, and is no evidence.
type Limit struct {
	Concurrent int // visits at the same time
	PerMinute  int // visits begun within any minute, at most MaxPerMinute

	// Fleet has the limit hold over all processes that share a store, as long
	// as [Gateway.Run] runs. Else it holds for each process.
	Fleet bool
}

// MaxPerMinute bounds Limit.PerMinute: each of its visits is remembered for a minute.
const MaxPerMinute = 100_000

// limiter keeps a backend to its Limit. It is safe for concurrent use.
type limiter struct {
	running atomic.Int64
	free    atomic.Bool // there is no limit

	mu       sync.Mutex // guards the rest
	calls    part       // of the calls at once
	minute   part       // of the calls a minute
	begun    []time.Time
	wantMore chan struct{} // holds a value when a part is used up, or soon will be
}

func newLimiter(l Limit) *limiter {
	made := &limiter{wantMore: make(chan struct{}, 1)}
	made.set(l)
	return made
}

// set puts another limit in place. What is under way counts by it too.
func (l *limiter) set(limit Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.set(limit.Concurrent, limit.Fleet)
	l.minute.set(limit.PerMinute, limit.Fleet)
	l.free.Store(limit.Concurrent == 0 && limit.PerMinute == 0)
}

// enter begins a visit, which leave ends. Else it returns the refusal.
func (l *limiter) enter(circuit string, now time.Time) error {
	if l.free.Load() {
		l.running.Add(1)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	refuse := func(p *part, what string, until time.Time) error {
		p.refused = true
		l.ask()
		words := "the limit of %d %s is reached"
		if p.fleet {
			words = "this process's part of the limit of %d %s is used up"
		}
		return fusebox.NewDenial(fusebox.DenialInfo{Circuit: circuit, Reason: fusebox.ReasonThrottled, Until: until, LastError: fmt.Sprintf(words, p.limit, what)})
	}
	if p := &l.calls; p.limit > 0 && int(l.running.Load()) >= p.allowed {
		return refuse(p, "calls at once", time.Time{})
	}
	if p := &l.minute; p.limit > 0 && len(l.begun) >= p.allowed {
		until := now.Add(claimEvery) // it has no part yet
		if p.allowed > 0 {
			until = l.begun[len(l.begun)-p.allowed].Add(time.Minute)
		}
		return refuse(p, "calls a minute", until)
	}
	if l.minute.limit > 0 {
		l.begun = append(l.begun, now)
	}
	l.running.Add(1)
	if l.calls.runsOut(int(l.running.Load())) || l.minute.runsOut(len(l.begun)) {
		l.ask()
	}
	return nil
}

// ask has the fleet asked for more soon.
func (l *limiter) ask() {
	select {
	case l.wantMore <- struct{}{}:
	default:
	}
}

// forget drops the visits that began a minute ago.
func (l *limiter) forget(now time.Time) {
	old := 0
	for old < len(l.begun) && !now.Before(l.begun[old].Add(time.Minute)) {
		old++
	}
	l.begun = l.begun[old:]
}

// leave ends a visit.
func (l *limiter) leave() { l.running.Add(-1) }
