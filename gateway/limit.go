package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Limit bounds what this process asks of a backend, whatever its clients want;
// 0 = no bound. A call beyond it goes to the next backend, as if this one had
// throttled it, and is no evidence.
type Limit struct {
	Concurrent int // visits at the same time
	PerMinute  int // visits begun within any minute, at most MaxPerMinute
}

// MaxPerMinute bounds Limit.PerMinute: each of its visits is remembered for a minute.
const MaxPerMinute = 100_000

// limiter keeps a backend to its Limit. It is safe for concurrent use.
type limiter struct {
	mu      sync.Mutex
	limit   Limit
	running int
	begun   []time.Time // of the visits of the last minute, oldest first
}

func newLimiter(l Limit) *limiter { return &limiter{limit: l} }

// set puts another limit in place. What is under way counts by it too.
func (l *limiter) set(limit Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// enter begins a visit, which leave ends. Else it returns the refusal.
func (l *limiter) enter(circuit string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	refuse := func(until time.Time, what string, n int) error {
		return fusebox.NewDenial(fusebox.DenialInfo{Circuit: circuit, Reason: fusebox.ReasonThrottled, Until: until,
			LastError: fmt.Sprintf("the limit of %d %s is reached", n, what)})
	}
	if n := l.limit.Concurrent; n > 0 && l.running >= n {
		return refuse(time.Time{}, "calls at once", n)
	}
	if n := l.limit.PerMinute; n > 0 {
		if l.forget(now); len(l.begun) >= n {
			return refuse(l.begun[len(l.begun)-n].Add(time.Minute), "calls a minute", n)
		}
		l.begun = append(l.begun, now)
	}
	l.running++
	return nil
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
func (l *limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}
