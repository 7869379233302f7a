package config

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// layer is one level of a circuit's settings: an entry of the file, or flags.
// What is nil is left as the levels below it say.
type layer struct {
	trip       *[]fusebox.Trip
	onClass    *[]fusebox.Class
	fasterThan *time.Duration
	overdue    *time.Duration
	distinct   *bool

	after  *time.Duration
	calls  *int
	jitter *float64
	growth *float64
	max    *time.Duration

	concurrent *int
	closeAfter *int
	attempts   *int
	lease      *time.Duration

	unit    *Unit
	onOpen  *OnOpen
	guard   *bool
	thrash  *bool
	observe *bool
}

// apply puts the layer on top of s, key by key. A time and a number of calls
// replace each other, and where base and maximum come from different levels the
// maximum is raised to the base.
func (l *layer) apply(s *Settings) {
	p := &s.Policy
	if l.trip != nil {
		s.untripped = len(*l.trip) == 0
	}
	if l.onClass != nil {
		s.untripped = false
	}
	set(&p.Trip, l.trip)
	set(&p.OnClass, l.onClass)
	set(&p.FasterThan, l.fasterThan)
	set(&p.Overdue, l.overdue)
	set(&p.Distinct, l.distinct)
	if l.after != nil {
		p.Cooldown.After, p.Cooldown.Calls = *l.after, 0
	}
	if l.calls != nil {
		p.Cooldown.After, p.Cooldown.Calls = 0, *l.calls
	}
	set(&p.Cooldown.Jitter, l.jitter)
	set(&p.Cooldown.Growth, l.growth)
	set(&p.Cooldown.Max, l.max)
	if c := &p.Cooldown; c.Max > 0 && c.Max < c.After {
		c.Max = c.After
	}
	set(&p.Probe.Concurrent, l.concurrent)
	set(&p.Probe.CloseAfter, l.closeAfter)
	set(&p.Probe.Attempts, l.attempts)
	set(&p.Probe.Lease, l.lease)
	set(&p.Observe, l.observe)
	set(&s.Unit, l.unit)
	set(&s.OnOpen, l.onOpen)
	set(&s.Guard, l.guard)
	set(&s.Thrash, l.thrash)
}

// alone is the layer as a policy of its own, for checking it: what it does not
// say is set to what is always right.
func (l *layer) alone() fusebox.Policy {
	s := Settings{Policy: fusebox.Policy{Probe: fusebox.Probe{Concurrent: 1, CloseAfter: 1}}}
	unraised := *l
	unraised.max = nil
	unraised.apply(&s)
	if l.after != nil {
		set(&s.Policy.Cooldown.Max, l.max)
	}
	return s.Policy
}
