package gateway

import (
	"math/rand/v2"
	"sync"
	"time"
)

// recentCalls is over how many calls the budget's ratio looks back.
const recentCalls = 100

// budget is what the gateway may still spend on retries: every call adds a
// share of one, time adds so many a minute, a retry takes one.
type budget struct {
	Budget
	mu   sync.Mutex
	left float64
	at   time.Time
}

func newBudget(b Budget) *budget { return &budget{Budget: b, left: float64(b.PerMinute)} }

// call counts one call.
func (b *budget) call() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+b.Ratio, b.most())
}

// take reports whether one more retry may be made, and counts it.
func (b *budget) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); !b.at.IsZero() && passed > 0 {
		b.left = min(b.left+passed.Minutes()*float64(b.PerMinute), b.most())
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *budget) most() float64 { return float64(b.PerMinute) + b.Ratio*recentCalls }

// pause returns how long to wait before attempt n+1, n from 1: uniform up to a
// bound that doubles, so that those who failed together do not return together.
func (r *Retry) pause(n int) time.Duration {
	bound := r.Base
	for range n - 1 {
		if bound *= 2; bound >= r.Max {
			break
		}
	}
	if bound = min(bound, r.Max); bound <= 0 {
		return 0
	}
	return rand.N(bound + 1)
}
