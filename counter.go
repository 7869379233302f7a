package fusebox

import (
	"sync/atomic"
	"unsafe"
)

// counter counts calls, with their total time, from many goroutines. It is one
// word until two cores meet on it; from then on it has padded stripes, chosen
// by the address of the caller's stack.
type counter struct {
	n       atomic.Int64
	elapsed atomic.Int64 // nanoseconds
	stripes atomic.Pointer[[counterStripes]stripe]
}

const counterStripes = 8

type stripe struct {
	n       atomic.Int64
	elapsed atomic.Int64
	_       [112]byte // a stripe to itself, and the neighbour line that is fetched with it
}

// add counts one call.
func (c *counter) add() {
	if s := c.stripes.Load(); s != nil {
		s[stripeIndex()].n.Add(1)
		return
	}
	n := c.n.Load()
	if !c.n.CompareAndSwap(n, n+1) {
		c.spread().n.Add(1)
	}
}

// addTimed counts one call that took elapsed nanoseconds.
func (c *counter) addTimed(elapsed int64) {
	if s := c.stripes.Load(); s != nil {
		i := stripeIndex()
		s[i].n.Add(1)
		s[i].elapsed.Add(elapsed)
		return
	}
	n := c.n.Load()
	if !c.n.CompareAndSwap(n, n+1) {
		s := c.spread()
		s.n.Add(1)
		s.elapsed.Add(elapsed)
		return
	}
	c.elapsed.Add(elapsed)
}

// spread returns this goroutine's stripe, making the stripes if need be.
//
//go:noinline
func (c *counter) spread() *stripe {
	s := c.stripes.Load()
	if s == nil {
		c.stripes.CompareAndSwap(nil, new([counterStripes]stripe))
		s = c.stripes.Load()
	}
	return &s[stripeIndex()]
}

// stripeIndex differs between goroutines that run at the same time: their
// stacks lie at least 2 KiB apart.
func stripeIndex() uintptr {
	var here byte
	p := uintptr(unsafe.Pointer(&here))
	return (p>>11 ^ p>>15) % counterStripes
}

// drain returns the calls counted since the last drain and their total time,
// and starts again from zero. Calls counted meanwhile fall to one side or the
// other, and are not lost.
func (c *counter) drain() (n, elapsed int64) {
	n, elapsed = take(&c.n), take(&c.elapsed)
	if s := c.stripes.Load(); s != nil {
		for i := range s {
			n += take(&s[i].n)
			elapsed += take(&s[i].elapsed)
		}
	}
	return n, elapsed
}

// take returns what a holds and leaves zero. It looks first: most are zero, and
// an exchange costs more.
func take(a *atomic.Int64) int64 {
	if a.Load() == 0 {
		return 0
	}
	return a.Swap(0)
}

// peek returns what drain would, and changes nothing.
func (c *counter) peek() (n, elapsed int64) {
	n, elapsed = c.n.Load(), c.elapsed.Load()
	if s := c.stripes.Load(); s != nil {
		for i := range s {
			n += s[i].n.Load()
			elapsed += s[i].elapsed.Load()
		}
	}
	return n, elapsed
}
