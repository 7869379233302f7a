package replay

import "math"

// history is what tuning keeps of a circuit's results: how many there were,
// and which of them failed. Times are nanoseconds since the epoch.
type history struct {
	first, last int64 // when the first and the last result came
	results     int64
	failures    []failure
}

// failure is one failed result: its number among the results, and when.
type failure struct {
	number int64
	at     int64
}

func (h *history) add(at int64, failed bool) {
	if h.results == 0 {
		h.first = at
	}
	h.last = at
	if failed {
		h.failures = append(h.failures, failure{h.results, at})
	}
	h.results++
}

// stretch is a part of a history, from one failure to another.
type stretch struct {
	from, to int // indexes into the failures, both included
}

// The cumulative sum (Page 1954) tells incidents from normal operation: each
// result adds the logarithm of how much likelier it is in an incident than in
// normal operation, and never brings the sum below 0. An incident has begun
// where the sum left 0 before it passed the alarm, and is over where the same
// evidence for normal operation began to gather. At the alarm, noise
// is taken for an incident about once in half a million calls.
const (
	alarm       = 11.5 // ln 100,000
	leastNormal = 0.02 // a smaller share of failures is taken for this one
	mostNormal  = 0.3  // and a larger one for this
)

// incidents finds the incidents. What share of failures is normal is not known
// beforehand: it is at most the share in all, and then what is left without the
// incidents that this shows.
func (h *history) incidents() []stretch {
	if h.results == 0 {
		return nil
	}
	share := float64(len(h.failures)) / float64(h.results)
	var found []stretch
	for range 8 {
		found = h.outOf(min(max(share, leastNormal), mostNormal))
		failures, results := h.normal(found)
		left := float64(failures) / float64(max(results, 1))
		if left >= share {
			break
		}
		share = left
	}
	return found
}

// outOf finds the incidents where p is the share of failures in normal operation.
func (h *history) outOf(p float64) []stretch {
	broken := (1 + p) / 2
	up, down := math.Log(broken/p), math.Log((1-p)/(1-broken))
	var found []stretch
	var sum, back float64 // evidence for an incident; once in one, for its end
	begin, inside, before := 0, false, int64(-1)
	for i, f := range h.failures {
		worked := float64(f.number - before - 1)
		before = f.number
		if inside {
			if back += worked * down; back < alarm {
				if back = max(back-up, 0); back == 0 {
					found[len(found)-1].to = i
				}
				continue
			}
			inside, sum = false, 0
		}
		if sum = max(sum-worked*down, 0); sum == 0 {
			begin = i
		}
		if sum += up; sum >= alarm {
			found = append(found, stretch{begin, i})
			inside, back = true, 0
		}
	}
	return found
}

// normal counts the failures and results outside of the incidents.
func (h *history) normal(incidents []stretch) (failures, results int64) {
	failures, results = int64(len(h.failures)), h.results
	for _, s := range incidents {
		failures -= int64(s.to - s.from + 1)
		results -= h.calls(s)
	}
	return failures, results
}

// calls is how many results came in a stretch.
func (h *history) calls(s stretch) int64 {
	return h.failures[s.to].number - h.failures[s.from].number + 1
}

// within reports whether t lies in a stretch.
func (h *history) within(s stretch, t int64) bool {
	return h.failures[s.from].at <= t && t <= h.failures[s.to].at
}

// seconds is how long normal operation was.
func (h *history) seconds(incidents []stretch) float64 {
	normal := h.last - h.first
	for _, s := range incidents {
		normal -= h.failures[s.to].at - h.failures[s.from].at
	}
	return float64(normal) / 1e9
}

// longestStreak is the most failures in a row outside of the incidents.
func (h *history) longestStreak(incidents []stretch) int {
	longest := 0
	h.each(incidents, func(part []failure) {
		streak := 0
		for i, f := range part {
			if i == 0 || f.number != part[i-1].number+1 {
				streak = 0
			}
			streak++
			longest = max(longest, streak)
		}
	})
	return longest
}

// largestCount is the most failures within a window outside of the incidents.
func (h *history) largestCount(incidents []stretch, window int64) int {
	largest := 0
	h.each(incidents, func(part []failure) {
		from := 0
		for i, f := range part {
			for f.at-part[from].at > window {
				from++
			}
			largest = max(largest, i-from+1)
		}
	})
	return largest
}

// each hands out the failures between the incidents.
func (h *history) each(incidents []stretch, part func([]failure)) {
	from := 0
	for _, s := range incidents {
		part(h.failures[from:s.from])
		from = s.to + 1
	}
	part(h.failures[from:])
}
