package filestore

import (
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// aheadOf reports whether s tells of a cooldown or of a probe that began after
// now: the clock was set back since. Left alone, a state like that would keep
// the circuit as it is until the clock has caught up.
func aheadOf(s *fusebox.State, now time.Time) bool {
	if s.Phase == fusebox.Open && !s.Until.IsZero() && s.Since.After(now) {
		return true
	}
	return slices.ContainsFunc(s.Leases, func(l fusebox.Lease) bool { return l.At.After(now) })
}

// setBack returns s with cooldown and probes that began in the future begun
// now, each with its whole length. What ends at a time that somebody named,
// such as a hold or a throttle, stays.
func setBack(s fusebox.State, now time.Time) fusebox.State {
	if !aheadOf(&s, now) {
		return s
	}
	if s.Since.After(now) {
		if !s.Until.IsZero() {
			s.Until = now.Add(s.Until.Sub(s.Since))
		}
		s.Since = now
	}
	s.Leases = slices.Clone(s.Leases)
	for i := range s.Leases {
		l := &s.Leases[i]
		if !l.At.After(now) {
			continue
		}
		if !l.Until.IsZero() {
			l.Until = now.Add(l.Until.Sub(l.At))
		}
		l.At = now
	}
	return s
}
