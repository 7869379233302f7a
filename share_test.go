package fusebox

import (
	"testing"
	"time"
)

func TestSharesNeverGrantMoreThanThereIs(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	held := func(n int) Holding { return Holding{Held: n, Need: n, Until: now.Add(time.Minute)} }
	for _, c := range []struct {
		name   string
		shares Shares
		claim  Claim
		want   Share
	}{
		{"all of it", Shares{}, Claim{Need: 3, Want: 99}, Share{Held: 10, Owners: 1}},
		{"no more than it wants", Shares{}, Claim{Need: 3, Want: 4}, Share{Held: 4, Owners: 1}},
		{"what it needs, if it wants less", Shares{}, Claim{Need: 3}, Share{Held: 3, Owners: 1}},
		{"what the other leaves", Shares{"b": held(7)}, Claim{Want: 10}, Share{Held: 3, Owners: 2}},
		{"in place of what it held", Shares{"a": held(9), "b": held(1)}, Claim{Want: 10}, Share{Held: 9, Owners: 2}},
		{"nothing, and it is no owner", Shares{"a": held(9), "b": held(1)}, Claim{}, Share{Owners: 1}},
		{"what has lapsed is free", Shares{"b": {Held: 7, Need: 9, Until: now}}, Claim{Want: 10}, Share{Held: 10, Owners: 1}},
		{"another is short", Shares{"b": {Held: 2, Need: 3, Until: now.Add(1)}}, Claim{Need: 8}, Share{Held: 8, Owners: 2, Short: true}},
		{"others hold more than there is now", Shares{"b": held(20)}, Claim{Need: 1}, Share{Owners: 2}},
		{"a record that nobody wrote", Shares{"b": held(-50)}, Claim{Want: 99}, Share{Held: 10, Owners: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.claim.Owner, c.claim.Limit, c.claim.For = "a", 10, time.Minute
			if got := c.shares.Claim(c.claim, now); got != c.want {
				t.Errorf("have %+v, want %+v", got, c.want)
			}
			if h, kept := c.shares["a"]; kept != (c.claim.Need+c.claim.Want > 0) || h.Held != c.want.Held {
				t.Errorf("recorded: %+v", c.shares)
			}
		})
	}
}
