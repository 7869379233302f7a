package fusebox

import (
	"context"
	"fmt"
	"time"
)

// Trip opens the circuit with the normal cooldown, whatever its phase. It does
// nothing while the circuit is held. reason is recorded, here and below.
func (c *Circuit) Trip(reason string) { c.operate(Event{Kind: KindTrip, Cause: reason}) }

// Reset closes the circuit and clears its marks, its growth and its throttle.
// It does nothing while the circuit is held.
func (c *Circuit) Reset(reason string) { c.operate(Event{Kind: KindReset, Cause: reason}) }

// Hold holds the circuit open or closed until the given time; zero = until
// [Circuit.Lift]. A hold beats the rules.
func (c *Circuit) Hold(to Phase, until time.Time, reason string) error {
	if to != Open && to != Closed {
		return fmt.Errorf("fusebox: a circuit can be held open or closed, not %v", to)
	}
	c.operate(Event{Kind: KindHold, Action: ActionHeld, Phase: to, Until: until, Cause: reason})
	return nil
}

// Lift ends a hold. A circuit that was held open may be probed at once, unless
// its own cooldown runs longer.
func (c *Circuit) Lift(reason string) {
	c.operate(Event{Kind: KindHold, Action: ActionLifted, Cause: reason})
}

// Throttle refuses calls until the given time, at most [MaxThrottle] away; a
// time that has passed lifts the throttle.
func (c *Circuit) Throttle(until time.Time, reason string) {
	c.operate(Event{Kind: KindThrottle, Until: until, Cause: reason})
}

// LastResort asks for a probe although the cooldown is not over, because
// nothing else is left; it is granted once per cooldown. The error is a
// *[Denial]. Success closes the circuit; failure returns it to its cooldown.
func (c *Circuit) LastResort(ctx context.Context) (Permit, error) {
	t := c.box.now()
	c = c.lock()
	c.collect(t)
	request := c.request(t)
	request.LastResort = true
	s := c.deciding()
	if d := s.Decide(t); d.Reason != ReasonOpen || s.Resort || c.observes() {
		p, ask, err := c.admit(t, true)
		c.mu.Unlock()
		c.box.deliver()
		if ask != nil {
			return c.box.sync.probe(ctx, c, *ask)
		}
		return p, err
	}
	if c.box.joined() && !c.d.asking {
		c.d.asking = true
		c.mu.Unlock()
		c.box.deliver()
		return c.box.sync.probe(ctx, c, request)
	}
	c.fold(t, true, request)
	var p Permit
	var err error
	if c.d.state.HasLease(request.Lease) {
		p = c.permit(t, request.Lease, true)
	} else {
		p, err = c.refuse(c.deciding(), t, true)
	}
	c.mu.Unlock()
	c.box.deliver()
	return p, err
}

func (c *Circuit) operate(e Event) {
	e.At = c.box.now()
	c.enter(e.At, true, e)
}

// enter folds an event that is no call's result.
func (c *Circuit) enter(t time.Time, live bool, e Event) {
	c = c.lock()
	c.fold(t, live, e)
	c.mu.Unlock()
	c.box.deliver()
}
