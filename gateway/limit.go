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
	Limit

	mu      sync.Mutex
	running int
	begun   []time.Time // of the last PerMinute visits, as a ring
	oldest  int
}

func newLimiter(l Limit) *limiter { return &limiter{Limit: l, begun: make([]time.Time, l.PerMinute)} }

// enter begins a visit, which leave ends. Else it returns the refusal.
func (l *limiter) enter(circuit string, now time.Time) error {
	if l.Limit == (Limit{}) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	refuse := func(until time.Time, what string, n int) error {
		return fusebox.NewDenial(fusebox.DenialInfo{Circuit: circuit, Reason: fusebox.ReasonThrottled, Until: until,
			LastError: fmt.Sprintf("the limit of %d %s is reached", n, what)})
	}
	if l.Concurrent > 0 && l.running >= l.Concurrent {
		return refuse(time.Time{}, "calls at once", l.Concurrent)
	}
	if l.PerMinute > 0 {
		if again := l.begun[l.oldest].Add(time.Minute); now.Before(again) {
			return refuse(again, "calls a minute", l.PerMinute)
		}
		l.begun[l.oldest] = now
		l.oldest = (l.oldest + 1) % l.PerMinute
	}
	l.running++
	return nil
}

// leave ends a visit.
func (l *limiter) leave() {
	if l.Limit == (Limit{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}
