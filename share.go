package fusebox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sharer is what a [Store] may be besides: it divides what there is only so
// much of, as the calls a minute that a provider allows, among the processes
// that use the store. Those that pass the suite in storetest never grant more
// than there is at the same time.
type Sharer interface {
	// Share claims a part of what goes by that name, in place of what the owner
	// held of it, and returns what it holds now. The name is a circuit's, or
	// formed like one.
	Share(ctx context.Context, name string, c Claim) (Share, error)
}

// Claim says how much one process would hold. One that needs and wants nothing
// gives all back.
type Claim struct {
	Owner string        // unlike any other's
	Limit int           // what there is in all
	Need  int           // what the owner uses, or is refused for want of
	Want  int           // what it would hold if nobody else did; at least Need counts
	For   time.Duration // after that it is given back, unless claimed again
}

// Share is what an owner holds.
type Share struct {
	Held   int  // at most the claim's Limit, over all owners
	Owners int  // that hold or need something, this one included
	Short  bool // another one holds less than it needs
}

// Validate returns what is wrong with the claim.
func (c Claim) Validate() error {
	switch {
	case c.Owner == "":
		return errors.New("fusebox: Claim: want an owner, have none")
	case c.Limit < 0 || c.Need < 0 || c.Want < 0:
		return fmt.Errorf("fusebox: Claim: want 0 or more, have limit %d, need %d, want %d", c.Limit, c.Need, c.Want)
	case c.For < time.Millisecond:
		return fmt.Errorf("fusebox: Claim: want a time of at least 1ms, have %v", c.For)
	}
	return nil
}

// Shares are the claims on one thing, by owner, as a store keeps them.
type Shares map[string]Holding

// Holding is one owner's share.
type Holding struct {
	Held  int       `json:"held"`
	Need  int       `json:"need"`
	Until time.Time `json:"until"`
}

// Claim takes a claim in at a time of the store's clock.
func (s Shares) Claim(c Claim, now time.Time) Share {
	got := Share{Held: c.Limit}
	delete(s, c.Owner)
	for owner, h := range s {
		if !now.Before(h.Until) {
			delete(s, owner)
			continue
		}
		got.Held -= max(h.Held, 0)
		got.Owners++
		got.Short = got.Short || h.Held < h.Need
	}
	want := max(c.Need, c.Want)
	if got.Held = max(min(got.Held, want), 0); want > 0 {
		got.Owners++
		s[c.Owner] = Holding{got.Held, min(c.Need, c.Limit), now.Add(c.For)}
	}
	return got
}
