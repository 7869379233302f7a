package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Picker chooses the first usable of several circuits.
type Picker struct {
	Store         fusebox.Store
	Policy        func(circuit string) fusebox.Policy // nil or zero = the stored one
	Worker        string
	Peek          bool          // look only: take no probe's slot, count no refusal
	PreferHealthy bool          // known to be up before unknown
	Lease         time.Duration // of a probe's slot; 0 = the circuit's own
	Observe       bool          // decide and record, but pass over nothing
	Start         bool          // a process is started with the pick: its ticket is to be reported by this program
	Run           string        // which agent run the process belongs to; "" = none
}

// Choice is one circuit that was looked at.
type Choice struct {
	Name   string // as it was given
	Guard  *Guard
	Status fusebox.Status
	Denial *fusebox.Denial // why not; nil = usable
	Ticket *Ticket         // of the picked one
}

// Pick looks at the circuits in the order given and returns the first that is
// usable, with those that were passed over. Unknown is usable. Where a cooldown
// is over it takes the probe's slot, which the next report on that circuit
// settles, whoever makes it. Where none is usable but some could not be read,
// the first of those is picked: nothing is known against it, see [Guard.Unasked].
// picked is nil when none is usable; the error tells of circuits that could not
// be read, unless one that could was picked.
func (p *Picker) Pick(ctx context.Context, names []string) (picked *Choice, passed []Choice, err error) {
	choices, unread, errs := p.look(ctx, names)
	for i := range choices {
		c := &choices[i]
		if c.Denial == nil {
			err := p.take(ctx, c)
			switch d := fusebox.AsDenial(err); {
			case err == nil:
				return c, passed, nil
			case d == nil:
				errs = append(errs, fmt.Errorf("%s: %w", c.Guard.Circuit, err))
				unread = append(unread, *c)
				continue
			default:
				c.Denial = d
			}
		} else if !p.Peek {
			if err := c.count(ctx); err != nil {
				errs = append(errs, err)
			}
		}
		passed = append(passed, *c)
	}
	if len(unread) > 0 && ctx.Err() == nil {
		picked = &unread[0]
		picked.Ticket = picked.Guard.Unasked(p.Run)
	}
	return picked, passed, errors.Join(errs...)
}

// look reads every circuit and puts them in the order in which they are tried;
// those that could not be read are apart. A store that does not answer is not
// asked again.
func (p *Picker) look(ctx context.Context, names []string) (choices, unread []Choice, errs []error) {
	silent := false
	for _, name := range names {
		canonical, err := fusebox.CanonicalName(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		g := &Guard{Store: p.Store, Circuit: canonical, Worker: p.Worker, Observe: p.Observe}
		if p.Policy != nil {
			g.Policy = p.Policy(canonical)
		}
		if silent {
			unread = append(unread, Choice{Name: name, Guard: g})
			continue
		}
		s, err := g.apply(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", canonical, err))
			unread = append(unread, Choice{Name: name, Guard: g})
			silent = errors.Is(err, context.DeadlineExceeded)
			continue
		}
		c := Choice{Name: name, Guard: g, Status: s.StatusAt(canonical, s.Clock())}
		if d := s.Decide(s.Clock()); !d.Go && !d.Probe && !g.observes(&s) {
			c.Denial = s.Denial(canonical, s.Clock())
		}
		choices = append(choices, c)
	}
	if p.PreferHealthy {
		slices.SortStableFunc(choices, func(x, y Choice) int { return rank(x) - rank(y) })
	}
	return choices, unread, errs
}

// rank orders choices: up, then unknown, then those that only a probe may try.
func rank(c Choice) int {
	switch c.Status.Health {
	case fusebox.Up:
		return 0
	case fusebox.Unknown:
		return 1
	}
	return 2
}

// take makes the choice ours: with a probe's slot where it needs one.
func (p *Picker) take(ctx context.Context, c *Choice) (err error) {
	if p.Start {
		c.Ticket, err = c.Guard.Ask(ctx, p.Run)
		return err
	}
	s, err := c.Guard.apply(ctx)
	if err != nil {
		return err
	}
	c.Ticket = &Ticket{guard: c.Guard, id: newToken(), version: s.Version, policy: s.Policy, started: s.Clock()}
	d := s.Decide(s.Clock())
	switch {
	case d.Go, c.Guard.observes(&s), d.Probe && p.Peek:
		return nil
	case !d.Probe:
		return s.Denial(c.Guard.Circuit, s.Clock())
	}
	if p.Lease > 0 {
		c.Ticket.until = s.Clock().Add(p.Lease)
	}
	after, err := c.Ticket.probe(ctx, &s, true)
	if err != nil {
		return err
	}
	if !c.Ticket.Probe() {
		return after.Denial(c.Guard.Circuit, after.Clock())
	}
	c.Ticket.version = after.Version
	return nil
}

// count records that the circuit was passed over.
func (c *Choice) count(ctx context.Context) error {
	_, err := c.Guard.apply(ctx, fusebox.Event{Kind: fusebox.KindDenied, At: time.Now().UTC(), Reason: c.Denial.Reason()})
	return err
}
