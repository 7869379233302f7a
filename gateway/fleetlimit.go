package gateway

import (
	"context"
	"time"

	"github.com/fusebox-go/fusebox"
)

// A limit of a fleet is divided among its processes: each holds a part of it in
// the store, claims it anew every second, and goes by that part alone in between,
// so that no request waits for the store. The parts never add up to more than the
// limit. Where nobody is short of it, each holds an even part at least, or twice
// what it uses; where somebody is, the others give back what they do not use, and
// let go of what is beyond an even part.

// How often a process claims its part: always, and at most when it runs out.
const (
	claimEvery = time.Second
	claimAgain = 100 * time.Millisecond
)

// How long a process that is not heard of holds its part. What was begun within a
// minute counts for a minute, whatever became of the process.
const (
	callsHeld  = 10 * time.Second
	minuteHeld = time.Minute + callsHeld
)

// part is how much of one limit this process may use.
type part struct {
	limit   int // 0 = none
	fleet   bool
	allowed int  // visits of this process; the limit, unless a fleet divides it
	refused bool // since the last claim
	owners  int  // that the limit was last divided among; 0 = it never was
	short   bool // another one has less than it needs
}

// set puts another limit in place. A fleet's is taken up with the next claim.
func (p *part) set(limit int, fleet bool) {
	if p.allowed = min(p.allowed, limit); !fleet || !p.fleet {
		p.allowed, p.owners, p.short = limit, 0, false
	}
	p.limit, p.fleet = limit, fleet
}

// even is the part that each would have if all had the same, and 1 at least.
func (p *part) even() int { return (p.limit + max(p.owners, 1) - 1) / max(p.owners, 1) }

// runsOut reports whether more will soon be needed than is allowed.
func (p *part) runsOut(used int) bool {
	return p.fleet && p.allowed < p.limit && 2*used > p.allowed
}

// claim says what to claim, of what is used now. What will not be claimed is not
// allowed from now on.
func (p *part) claim(used int) (need, want int) {
	need = 2 * used
	if p.refused {
		need = max(need, used+1)
	}
	need = min(need, p.limit)
	if p.short {
		need = max(min(need, p.even()), used)
	} else {
		want = p.even()
	}
	p.refused = false
	p.allowed = min(p.allowed, max(need, want))
	return need, want
}

// got takes up what the store says. Where it is out of reach, each process goes
// on with an even part, by how many they last were.
func (p *part) got(s fusebox.Share, err error) {
	if err != nil {
		p.allowed, p.short = p.even(), false
		return
	}
	p.owners, p.short, p.allowed = max(s.Owners, 1), s.Short, s.Held
	if p.short {
		p.allowed = min(p.allowed, p.even())
	}
}

// keep claims a backend's parts until ctx ends, and then gives back what is not
// used. owner is this process.
func (l *limiter) keep(ctx context.Context, store fusebox.Sharer, backend, owner string) {
	every := time.NewTicker(claimEvery)
	defer every.Stop()
	for {
		l.claim(ctx, store, backend, owner, false)
		again := time.NewTimer(claimAgain)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimEvery)
			defer cancel()
			l.claim(ctx, store, backend, owner, true)
			return
		case <-every.C:
		case <-l.wantMore:
		}
	}
}

// claim makes a claim of each limit that there is.
func (l *limiter) claim(ctx context.Context, store fusebox.Sharer, backend, owner string, last bool) {
	one := func(p *part, what string, used func() int, length time.Duration) {
		l.mu.Lock()
		if p.limit == 0 {
			l.mu.Unlock()
			return
		}
		c := fusebox.Claim{Owner: owner, Limit: p.limit, For: length}
		if c.Need, c.Want = p.claim(used()); last {
			c.Need, c.Want = used(), 0
		}
		l.mu.Unlock()
		share, err := store.Share(ctx, "limit/"+backend+"/"+what, c)
		l.mu.Lock()
		defer l.mu.Unlock()
		if !last {
			p.got(share, err)
		}
	}
	one(&l.calls, "concurrent", func() int { return int(l.running.Load()) }, callsHeld)
	one(&l.minute, "per_minute", func() int {
		l.forget(time.Now())
		return len(l.begun)
	}, minuteHeld)
}
