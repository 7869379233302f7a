package fusebox

import (
	"math"
	"sync/atomic"
	"time"
)

// epoch is what a call needs to know of its circuit, read with one atomic load.
// It lasts as long as the version and the way of deciding do not change, so a
// result that finds its epoch replaced knows that it may be late.
type epoch struct {
	circuit *Circuit
	version uint64
	mode    mode
	ok      counter // successes not folded yet

	// While refusing.
	denial  *Denial
	refused counter
	over    atomic.Bool // set by a timer when it is worth deciding anew

	// Of modeWindow and modeTimed, in nanoseconds on the box's clock.
	bucketEnd atomic.Int64 // when successes begin to belong to another bucket of a window
	slow      int64        // a success that took longer must be folded by itself
}

// mode is how calls are admitted and successes are counted.
type mode uint8

const (
	modeLocked mode = iota // by the state, under the circuit's lock
	modePlain              // all pass; a success is a count: no clock, no lock
	modeWindow             // as modePlain, with one clock read for the bucket
	modeTimed              // as modeWindow, and with the call's time
	modeRefuse             // all are refused until a timer says otherwise
)

// wakeEarly is how long before the end of a refusal callers look at the clock
// again: a timer comes late on a busy machine, and who waited until the very end
// must not find the circuit still refusing.
const wakeEarly = 20 * time.Millisecond

// modeOf is the mode for a state at t. live says that time is the box's own
// clock, so that a timer can be set by it.
func (c *Circuit) modeOf(s *State, t time.Time, live bool) mode {
	p := c.policy.Load()
	d := s.For(c.box.cfg.Worker).Decide(t)
	soon := d.RetryAfter > 0 && d.RetryAfter <= wakeEarly
	switch {
	case !d.Go && !d.Probe && live && d.Reason != ReasonProbing && !soon && !c.observes() && p.Cooldown.Calls == 0:
		return modeRefuse
	case !d.Go, s.Phase == HalfOpen, s.Hold != nil, p.Overdue > 0 && len(p.Trip) > 0:
		return modeLocked
	}
	timed, windowed := c.box.records() || p.FasterThan > 0, false
	for i := range p.Trip {
		timed = timed || p.Trip[i].kind == tripSlow
		windowed = windowed || p.Trip[i].isShare()
	}
	if windowed && !clean(s.Windows) {
		return modeLocked // a success may matter: it brings a window to its least number of calls
	}
	switch {
	case timed:
		return modeTimed
	case windowed:
		return modeWindow
	}
	return modePlain
}

// clean reports whether no window holds anything bad, so that successes cannot
// trip a rule.
func clean(windows []Window) bool {
	for i := range windows {
		for _, b := range windows[i].Buckets {
			if b.Bad > 0 {
				return false
			}
		}
	}
	return true
}

// refresh replaces the epoch where the state asks for another one. The caller
// holds the lock.
func (c *Circuit) refresh(t time.Time, live bool) {
	s := c.known()
	want := c.modeOf(s, t, live)
	now := c.cur.Load()
	if now.version == s.Version && now.mode == want && want != modeRefuse {
		if want == modeWindow || want == modeTimed {
			now.bucketEnd.Store(c.bucketEnd(t))
		}
		return
	}
	if c.resume(now, want, s.Version) {
		return
	}
	next := &epoch{circuit: c, version: s.Version, mode: want, slow: math.MaxInt64}
	switch want {
	case modeRefuse:
		s := s.For(c.box.cfg.Worker)
		next.denial = c.denial(s, t)
		if after := s.Decide(t).RetryAfter; after > 0 {
			c.d.timer(after-wakeEarly, next)
		}
	case modeWindow, modeTimed:
		next.bucketEnd.Store(c.bucketEnd(t))
		for i := range c.policy.Load().Trip {
			if rule := &c.policy.Load().Trip[i]; rule.kind == tripSlow {
				next.slow = min(next.slow, int64(rule.limit))
			}
		}
	}
	c.retire(now, t)
	c.cur.Store(next)
}

// resume keeps a plain epoch for as long as its version lasts, and goes back to
// it when the version's calls pass again: a permit that it gave counts on it,
// whatever refused calls in between. It reports whether it went back.
func (c *Circuit) resume(now *epoch, want mode, version uint64) bool {
	if c.d == nil {
		return false
	}
	if now.mode == modePlain && now.version == version {
		c.d.plain = now
		return false
	}
	plain := c.d.plain
	c.d.plain = nil
	if plain == nil || plain.version != version {
		return false
	}
	if want != modePlain {
		c.d.plain = plain
		return false
	}
	c.retire(now, time.Time{})
	c.cur.Store(plain)
	return true
}

// bucketEnd is when the shortest bucket that t lies in ends, on the box's clock.
func (c *Circuit) bucketEnd(t time.Time) int64 {
	end := int64(math.MaxInt64)
	for i := range c.policy.Load().Trip {
		rule := &c.policy.Load().Trip[i]
		if !rule.isShare() {
			continue
		}
		size := max(int64(rule.within)/windowBuckets, 1)
		boundary := time.Unix(0, (bucketOf(t, rule.within)+1)*size)
		end = min(end, int64(boundary.Sub(c.box.base)))
	}
	return end
}

// timer wakes the epoch's callers after d.
func (d *detail) timer(after time.Duration, e *epoch) {
	if d.wake != nil {
		d.wake.Stop()
	}
	d.wake = time.AfterFunc(after, func() { e.over.Store(true) })
}
