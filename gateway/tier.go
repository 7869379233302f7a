package gateway

import (
	"slices"
	"sync"
)

// MaxWeight bounds RouteBackend.Weight.
const MaxWeight = 1000

// tier is the backends of one priority. They share the requests by weight, as
// evenly spread as can be: of four requests at 3 to 1 the first backend gets
// exactly three. It is safe for concurrent use.
type tier struct {
	priority int
	members  []weighted

	mu     sync.Mutex
	credit []int // by member: what it is owed, in weights; in all 0
}

type weighted struct {
	*backend
	weight int
}

// tiersOf returns the backends of a route that speak a dialect, by priority.
func tiersOf(list []RouteBackend, byName map[string]*backend, d Dialect) (tiers []*tier) {
	for _, b := range list {
		made := byName[b.Name]
		if made.Dialect != d {
			continue
		}
		if n := len(tiers); n == 0 || tiers[n-1].priority != b.Priority {
			tiers = append(tiers, &tier{priority: b.Priority})
		}
		t := tiers[len(tiers)-1]
		t.members = append(t.members, weighted{made, b.Weight})
		t.credit = append(t.credit, 0)
	}
	return tiers
}

func (t *tier) has(b *backend) bool {
	for _, m := range t.members {
		if m.backend == b {
			return true
		}
	}
	return false
}

// turn is one request's way through a tier.
type turn struct {
	tier  *tier
	tried []bool // by member
	last  int    // member that was given out last
	alone bool   // the only member was given out
}

func (t *tier) begin() turn {
	if len(t.members) == 1 {
		return turn{tier: t}
	}
	return turn{tier: t, tried: make([]bool, len(t.members))}
}

// next gives out the member that is owed most of those that were not yet, and
// charges it with the request; nil when there is none left.
func (r *turn) next() *backend {
	t := r.tier
	if len(t.members) == 1 {
		if r.alone {
			return nil
		}
		r.alone = true
		return t.members[0].backend
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	best, total := -1, 0
	for i, m := range t.members {
		if r.tried[i] {
			continue
		}
		t.credit[i] += m.weight
		total += m.weight
		if best < 0 || t.credit[i] > t.credit[best] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	t.credit[best] -= total
	r.tried[best], r.last = true, best
	return t.members[best].backend
}

// pass takes the charge off the member that was given out last: it was not to
// be used, and its share goes to the rest.
func (r *turn) pass() {
	t := r.tier
	if len(t.members) == 1 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	total := 0
	for i, m := range t.members {
		if !r.tried[i] || i == r.last {
			t.credit[i] -= m.weight
			total += m.weight
		}
	}
	t.credit[r.last] += total
}

// takeOver goes on where the route's predecessor is, as far as it is the same.
func (r *route) takeOver(old *route) {
	same := func(a, b *tier) bool {
		return a.priority == b.priority && slices.EqualFunc(a.members, b.members, func(x, y weighted) bool { return x.Name == y.Name && x.weight == y.weight })
	}
	if r.match != old.match || !slices.EqualFunc(r.tiers, old.tiers, same) {
		return
	}
	for i, t := range old.tiers {
		t.mu.Lock()
		copy(r.tiers[i].credit, t.credit)
		t.mu.Unlock()
	}
}
