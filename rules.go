package fusebox

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// windowBuckets is how many buckets a ratio's window has.
const windowBuckets = 20

// Window holds the results of the last `within` of one Rate or Slow rule, in
// buckets aligned to the epoch.
type Window struct {
	First   int64    `json:"first"` // number of the first bucket since the epoch
	Buckets []Bucket `json:"buckets,omitempty"`
}

// Bucket counts results: all, and those that failed (Rate) or were slow (Slow).
type Bucket struct {
	All int `json:"all"`
	Bad int `json:"bad"`
}

// worked counts a run of results that worked.
func (s *State) worked(e *Event) {
	n := e.count()
	s.Votes += uint64(n)
	s.Worked = s.Votes
	s.Streak = 0
	s.fill(e, n, false)
}

// mark counts one failure and reports whether it was news: under Distinct, a
// repeat of a call that counts already is none.
func (s *State) mark(e *Event, t time.Time) bool {
	call := callHash(e.Run, e.Call)
	if s.Policy.Distinct && call != 0 && s.repeats(call, t) {
		return false
	}
	s.Votes++
	s.Streak++
	s.fill(e, 1, true)
	if s.Policy.marksNeeded() > 0 {
		s.Marks = append(s.Marks, Mark{At: e.At, Vote: s.Votes, Call: call})
		s.order()
	}
	return true
}

// callHash is the identity of an exact call within its run; 0 where unknown.
func callHash(run, call string) uint64 {
	if call == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(run))
	h.Write([]byte{0})
	h.Write([]byte(call))
	return max(h.Sum64()>>11, 1) // fits a JSON number
}

// repeats reports whether a failure of that call still counts at t.
func (s *State) repeats(call uint64, t time.Time) bool {
	within, streak := s.Policy.horizon()
	t = s.latest(within, t)
	return slices.ContainsFunc(s.Marks, func(m Mark) bool {
		if m.Call != call {
			return false
		}
		return streak && m.Vote > s.Worked || within > 0 && !m.At.Before(t.Add(-within)) && !m.At.After(t)
	})
}

// Window returns the longest window of p's rules; 0 = none has one.
func (p Policy) Window() time.Duration {
	within, _ := p.horizon()
	return within
}

// horizon returns the longest window of p and whether p has a streak.
func (p *Policy) horizon() (within time.Duration, streak bool) {
	for i := range p.Trip {
		within = max(within, p.Trip[i].within)
		streak = streak || p.Trip[i].kind == tripStreak
	}
	return within, streak
}

// distinctMarks is how many different failing calls Distinct remembers for a
// rule that may see more failures in its window than it takes to trip.
const distinctMarks = 64

// marksNeeded is the number of failures that the rules must tell apart.
func (p *Policy) marksNeeded() int {
	n := 0
	for i := range p.Trip {
		t := &p.Trip[i]
		if t.kind == tripCount || p.Distinct && t.kind == tripStreak {
			n = max(n, t.n)
		}
		if p.Distinct && (t.isShare() || t.of > 0) {
			n = max(n, distinctMarks)
		}
	}
	return n
}

// mostAhead is how many marks of the future are kept, the soonest: a clock that
// runs ahead must fill no memory.
const mostAhead = 64

// prune drops the marks that no rule can need at t or later. Beside those that
// count at t, as many as are needed are kept of the past and of the future, in
// case that it is t which is wrong.
func (s *State) prune(t time.Time) {
	need := s.Policy.marksNeeded()
	if len(s.Marks) <= 2*need {
		return
	}
	within, _ := s.Policy.horizon()
	now := s.latest(within, t)
	var ahead Marks
	past := make(Marks, 0, len(s.Marks))
	for _, m := range s.Marks {
		if m.At.After(now) {
			ahead = append(ahead, m)
		} else {
			past = append(past, m)
		}
	}
	kept := past[:0]
	for i := range past {
		if len(past)-i <= need || s.counts(&past[i], t) {
			kept = append(kept, past[i])
		}
	}
	if most := need + need/2; s.Policy.Quorum > 1 && len(kept) > most {
		kept = kept[len(kept)-most:] // more than open it, but of too few hosts: the newest are enough
	}
	if len(ahead) > mostAhead {
		slices.SortStableFunc(ahead, func(a, b Mark) int { return a.At.Compare(b.At) })
		ahead = ahead[:mostAhead]
	}
	if len(ahead) > 0 {
		kept = append(kept, ahead...)
		slices.SortFunc(kept, func(a, b Mark) int { return cmp.Compare(a.Vote, b.Vote) })
	}
	s.Marks, s.times = kept, nil
}

// counts reports whether a rule that is judged for an event of time t counts m.
func (s *State) counts(m *Mark, t time.Time) bool {
	return slices.ContainsFunc(s.Policy.Trip, func(rule Trip) bool {
		return rule.kind == tripCount && !rule.outvoted(m, s.Votes) && rule.spans(m, s.latest(rule.within, t))
	})
}

// outvoted reports whether m is not among the last of votes that the rule looks at.
func (t *Trip) outvoted(m *Mark, votes uint64) bool {
	return t.of > 0 && m.Vote+uint64(t.of) <= votes
}

// spans reports whether m lies in the rule's window at now.
func (t *Trip) spans(m *Mark, now time.Time) bool {
	return !m.At.Before(now.Add(-t.within)) && !m.At.After(now)
}

// fill counts n results in the windows of the ratios.
func (s *State) fill(e *Event, n int, failed bool) {
	if e.At.After(e.clock()) {
		return // a time in the future would push the present out of the window
	}
	at := 0
	for i := range s.Policy.Trip {
		rule := &s.Policy.Trip[i]
		if !rule.isShare() {
			continue
		}
		if at == len(s.Windows) {
			s.Windows = append(s.Windows, Window{})
		}
		bad := failed
		if rule.kind == tripSlow {
			if bad = e.Elapsed > rule.limit; bad {
				s.blameSlow(e)
			}
		}
		s.Windows[at].fill(rule.within, e, n, bad)
		at++
	}
	s.Windows = s.Windows[:at]
}

func (w *Window) fill(within time.Duration, e *Event, n int, bad bool) {
	last := bucketOf(e.At, within)
	if e.Admitted && last <= w.last()-windowBuckets {
		*w = Window{} // a call that ended just now: it is the clock that was set back
	}
	first := last
	if n > 1 && !e.Since.IsZero() && e.Since.Before(e.At) {
		first = max(bucketOf(e.Since, within), last-windowBuckets+1)
	}
	counted := 0
	if first < last {
		counted = endedBefore(e, n, first*bucketSize(within))
	}
	for b := first; b <= last; b++ {
		ended := n
		if b < last {
			ended = endedBefore(e, n, (b+1)*bucketSize(within))
		}
		part := ended - counted
		counted = ended
		if bad {
			w.add(b, part, part)
		} else {
			w.add(b, part, 0)
		}
	}
}

// endedBefore returns how many of a run's n calls ended before t, in
// nanoseconds since the epoch: their ends are spread evenly from Since to At,
// both included.
func endedBefore(e *Event, n int, t int64) int {
	since := e.Since.UnixNano()
	if t <= since {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t-since), uint64(n-1))
	before, rest := bits.Div64(hi, lo, uint64(e.At.UnixNano()-since))
	if rest > 0 {
		before++
	}
	return int(before)
}

func bucketSize(within time.Duration) int64 { return max(int64(within)/windowBuckets, 1) }

func bucketOf(t time.Time, within time.Duration) int64 {
	size := bucketSize(within)
	ns := t.UnixNano()
	b := ns / size
	if ns%size < 0 {
		b--
	}
	return b
}

// last is the number of the newest bucket, while there is one.
func (w *Window) last() int64 { return w.First + int64(len(w.Buckets)) - 1 }

func (w *Window) add(bucket int64, n, bad int) {
	if n == 0 {
		return
	}
	last := w.last()
	oldest := bucket - windowBuckets + 1
	switch {
	case len(w.Buckets) == 0 || last < oldest:
		w.First, w.Buckets = bucket, nil
	case bucket <= last-windowBuckets: // too old to count
		return
	case bucket < w.First: // a late result
		w.Buckets = append(make([]Bucket, w.First-bucket), w.Buckets...)
		w.First = bucket
	case w.First < oldest:
		w.Buckets = append([]Bucket(nil), w.Buckets[oldest-w.First:]...)
		w.First = oldest
	}
	for int64(len(w.Buckets)) <= bucket-w.First {
		w.Buckets = append(w.Buckets, Bucket{})
	}
	b := &w.Buckets[bucket-w.First]
	b.All += n
	b.Bad += bad
}

// sum returns the results of the buckets that count at t: the one t lies in
// and the 19 before it.
func (w *Window) sum(within time.Duration, t time.Time) (all, bad int) {
	last := bucketOf(t, within)
	for i, b := range w.Buckets {
		if n := w.First + int64(i); n > last-windowBuckets && n <= last {
			all += b.All
			bad += b.Bad
		}
	}
	return all, bad
}

// tripIfMet opens the circuit if a rule is met at t, the first in the policy's
// order. After a call that worked only shares are looked at: it adds to no
// count, but may bring a window to its least number of calls.
func (s *State) tripIfMet(t time.Time, worked bool) {
	window := 0
	for i := range s.Policy.Trip {
		rule := &s.Policy.Trip[i]
		share := rule.isShare()
		if rule.kind == tripCount && len(s.Marks) < rule.n {
			continue // whatever their times
		}
		if share || !worked {
			at := s.latest(rule.within, t)
			if count, met := s.measure(rule, window, at); met && s.ruleQuorate(rule, at) {
				s.Failures, s.FailedProbes = count, 0
				s.open(at, rule.Words())
				return
			}
		}
		if share {
			window++
		}
	}
	s.prune(t)
}

// latest is the time at which a rule over this window is judged for an event of
// time t: reports of parallel workers need not come in the order of their times,
// so it is the newest time seen, unless that lies so far ahead that a clock must
// have been set back since.
func (s *State) latest(within time.Duration, t time.Time) time.Time {
	if s.Latest.After(t) && s.Latest.Sub(t) <= within {
		return s.Latest
	}
	return t
}

func (t *Trip) isShare() bool { return t.kind == tripRate || t.kind == tripSlow }

// hasShare reports whether a rule of p looks at a share of the results.
func (p *Policy) hasShare() bool {
	return slices.ContainsFunc(p.Trip, func(rule Trip) bool { return rule.isShare() })
}

// measure returns the failures that rule counts at t and whether it is met.
// window is the index of the rule among the ratios.
func (s *State) measure(rule *Trip, window int, t time.Time) (count int, met bool) {
	switch rule.kind {
	case tripStreak:
		return s.Streak, s.Streak >= rule.n
	case tripCount:
		count = s.marksWithin(rule, t)
		return count, count >= rule.n
	}
	if window >= len(s.Windows) {
		return 0, false
	}
	all, bad := s.Windows[window].sum(rule.within, t)
	return bad, all >= rule.n && bad > 0 && reaches(bad, all, rule.ratio)
}

// marksWithin counts the marks m with t-within <= m <= t that are among the
// last rule.of votes.
func (s *State) marksWithin(rule *Trip, t time.Time) int {
	count, oldest := 0, t.Add(-rule.within)
	if rule.of == 0 && s.ordered() {
		return s.timesWithin(oldest, t)
	}
	for i := len(s.Marks) - 1; i >= 0; i-- {
		m := &s.Marks[i]
		if rule.outvoted(m, s.Votes) {
			break
		}
		if !m.At.Before(oldest) && !m.At.After(t) {
			count++
		}
	}
	return count
}

// reaches reports whether bad/all >= ratio, exactly for ratios of up to nine
// decimals: 0.495 does not reach 0.5, and 3 of 10 reach 0.3.
func reaches(bad, all int, ratio float64) bool {
	const unit = 1_000_000_000
	hi, lo := bits.Mul64(uint64(bad), unit)
	wantHi, wantLo := bits.Mul64(uint64(all), uint64(math.Round(ratio*unit)))
	return hi > wantHi || hi == wantHi && lo >= wantLo
}

// CountAt is how near the circuit is to opening at t: the largest count of its
// rules while closed, and while open the count that opened it.
func (s *State) CountAt(t time.Time) int {
	if s.Phase != Closed {
		return s.Failures
	}
	count, window := 0, 0
	for i := range s.Policy.Trip {
		rule := &s.Policy.Trip[i]
		n, _ := s.measure(rule, window, s.latest(rule.within, t))
		if rule.isShare() {
			window++
		}
		if rule.kind != tripSlow {
			count = max(count, n)
		}
	}
	return count
}

// onClass reports whether a failure of class c opens the circuit at once.
func (s *State) onClass(c Class) bool { return slices.Contains(s.Policy.OnClass, c) }

// MarshalJSON writes marks as numbers, three a mark: nanoseconds, vote, call,
// the first two as differences from the mark before.
func (m Marks) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	var at int64
	var vote uint64
	for i, mark := range m {
		if i > 0 {
			b = append(b, ',')
		}
		ns := mark.At.UnixNano()
		b = strconv.AppendInt(b, ns-at, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(mark.Vote-vote), 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, mark.Call, 10)
		at, vote = ns, mark.Vote
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads what [Marks.MarshalJSON] writes.
func (m *Marks) UnmarshalJSON(b []byte) error {
	var numbers []int64
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	if len(numbers)%3 != 0 {
		return errors.New("fusebox: marks: want three numbers each")
	}
	*m = make(Marks, 0, len(numbers)/3)
	var at, vote int64
	for i := 0; i < len(numbers); i += 3 {
		if numbers[i+2] < 0 {
			return errors.New("fusebox: marks: a call is a number of 0 or more")
		}
		at += numbers[i]
		vote += numbers[i+1]
		*m = append(*m, Mark{At: time.Unix(0, at).UTC(), Vote: uint64(vote), Call: uint64(numbers[i+2])})
	}
	return nil
}
