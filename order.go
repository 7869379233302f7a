package fusebox

import (
	"slices"
	"time"
)

// manyMarks is from how many marks on their times are kept in order as well, so
// that a window's count takes two searches and not a look at each: marks are in
// the order in which they were folded, and reports of parallel workers do not
// come in the order of their times.
const manyMarks = 64

// order puts the newest mark's time to the others'.
func (s *State) order() {
	n := len(s.Marks)
	switch {
	case n < manyMarks:
		s.times = nil
	case len(s.times) != n-1: // they were not kept
		s.times = make([]time.Time, n, 2*n)
		for i := range s.Marks {
			s.times[i] = s.Marks[i].At
		}
		slices.SortFunc(s.times, time.Time.Compare)
	default:
		at := s.Marks[n-1].At
		s.times = slices.Insert(s.times, firstAfter(s.times, at), at)
	}
}

// ordered reports whether the marks' times are kept in order.
func (s *State) ordered() bool { return len(s.times) == len(s.Marks) }

// timesWithin counts the times from oldest to newest, both included.
func (s *State) timesWithin(oldest, newest time.Time) int {
	first, _ := slices.BinarySearchFunc(s.times, oldest, time.Time.Compare)
	return firstAfter(s.times, newest) - first
}

// firstAfter returns the index of the first time after t.
func firstAfter(times []time.Time, t time.Time) int {
	if n := len(times); n == 0 || !times[n-1].After(t) {
		return n // as it mostly is
	}
	i, _ := slices.BinarySearchFunc(times, t, func(one, t time.Time) int {
		if one.After(t) {
			return 1
		}
		return -1
	})
	return i
}
