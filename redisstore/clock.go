package redisstore

import (
	"sync"
	"time"
)

// clock is the server's, as far as its replies tell. It runs on this process's
// monotonic time in between: what is done to a wall clock here does not matter.
type clock struct {
	mu     sync.Mutex
	server time.Time     // the server's time
	at     time.Time     // when that was, here
	slack  time.Duration // how far server may be off
}

// drift is by how much two clocks may grow apart: a reading that is older is
// worth less.
const drift = 1000 // one in a thousand

// heard takes in the server's time of a reply to what was sent and received at
// these times. Of two readings the more exact one is kept, unless they cannot
// both be right: then the server's clock was set.
func (c *clock) heard(sent, received, server time.Time) {
	slack := received.Sub(sent) / 2
	at := sent.Add(slack)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() {
		age := at.Sub(c.at)
		apart := server.Sub(c.server.Add(age)).Abs()
		known := c.slack + age.Abs()/drift
		if known < slack && apart <= known+slack {
			return
		}
	}
	c.server, c.at, c.slack = server, at, slack
}

// now is the server's time, or this process's before anything was heard.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now().Round(0).UTC()
	}
	return c.server.Add(time.Since(c.at))
}
