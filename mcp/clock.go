package mcp

import (
	"sync"
	"time"
)

// clock runs down to a call's deadline, and stands still while the server waits
// for the person at the client. A nil clock never ends.
type clock struct {
	mu      sync.Mutex
	timer   *time.Timer
	left    time.Duration // when it was last started
	started time.Time     // zero = it stands still
}

// newClock returns a clock that calls f when it has run for d, nil if there is
// no limit.
func newClock(d time.Duration, f func()) *clock {
	if d <= 0 {
		return nil
	}
	c := &clock{left: d, started: time.Now()}
	c.timer = time.AfterFunc(d, f)
	return c
}

// pause stops the clock until resume.
func (c *clock) pause() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started.IsZero() && c.timer.Stop() {
		c.left -= time.Since(c.started)
		c.started = time.Time{}
	}
}

func (c *clock) resume() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started.IsZero() {
		c.started = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}

// stop ends the clock. What it calls may be running already.
func (c *clock) stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.started = time.Now() // resume finds nothing to do
}
