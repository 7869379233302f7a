package fusebox

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// MaxQuorum is the largest quorum: a circuit knows of so many hosts, those that
// reported last.
const MaxQuorum = 8

// hostLives is for how long at least a host is live that has reported.
const hostLives = 10 * time.Minute

// maxHostName bounds what is kept of a host's name.
const maxHostName = 64

// Host is what a circuit knows of one host. Hosts are told apart only where the
// policy has a quorum.
type Host struct {
	Name   string    `json:"name"`
	Seen   time.Time `json:"seen"`            // its newest report
	Failed time.Time `json:"failed,omitzero"` // its newest failure since the circuit last closed
	Vote   uint64    `json:"vote,omitempty"`  // that failure's number among the votes
	Class  Class     `json:"class,omitempty"` // of its newest failure of those that open at once
	Slow   time.Time `json:"slow,omitzero"`   // its newest result that a Slow rule calls slow
	Since  time.Time `json:"since,omitzero"`  // when its own circuit closed last; what began before has no vote there

	// Own is the host's own circuit: what its results alone say. It begins with
	// a failure, where a rule looks at shares with any result, and is there only
	// while the circuit itself is closed; its policy is the circuit's without the
	// quorum.
	Own *OwnCircuit `json:"own,omitempty"`
}

// unnamed is the host of workers that do not say who they are.
const unnamed = "unnamed"

// HostOf returns the host of a worker's name: what stands before the process's
// number in HOST:PID. Workers without a name are one host, "unnamed".
func HostOf(worker string) string {
	if i := strings.LastIndexByte(worker, ':'); i >= 0 && isNumber(worker[i+1:]) {
		worker = worker[:i]
	}
	if len(worker) > maxHostName {
		worker = strings.ToValidUTF8(worker[:maxHostName], "")
	}
	if worker == "" {
		return unnamed
	}
	return worker
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// For returns the state that decides for a worker: the circuit's, or that of
// the worker's host's own circuit where that is not closed. A host whose probe
// failed last lets others go first: for it the cooldown is half as long again,
// so that one whose own network is broken does not keep the circuit open for
// all. The result is to be read only; its Version is the circuit's.
func (s *State) For(worker string) *State {
	if len(s.Hosts) == 0 {
		return s
	}
	name := HostOf(worker)
	if s.Phase == Open && s.LastProber == name && !s.countsRefusals() && s.othersLive(name) {
		later := *s
		later.Until = s.Until.Add(s.Until.Sub(s.Since) / 2)
		return &later
	}
	h := s.host(name)
	if h == nil || h.Own == nil || h.Own.Phase == Closed {
		return s
	}
	own := h.deciding(s)
	return &own
}

// deciding returns the host's own circuit as the state that decides for it.
func (h *Host) deciding(s *State) State {
	own := h.state(s)
	own.Throttled, own.Version, own.Now, own.ownOf = s.Throttled, s.Version, s.Now, h.Name
	return own
}

// ownPolicy is by what a host's own circuit is folded.
func (s *State) ownPolicy() Policy {
	p := s.Policy
	p.Quorum = 0
	return p
}

// host returns what is known of the host, nil if nothing is.
func (s *State) host(name string) *Host {
	for i := range s.Hosts {
		if s.Hosts[i].Name == name {
			return &s.Hosts[i]
		}
	}
	return nil
}

// liveAt reports whether the host has reported lately.
func (h *Host) liveAt(t time.Time, p *Policy) bool {
	return !h.Seen.Before(t.Add(-max(hostLives, p.Window())))
}

// othersLive reports whether another host reported since shortly before the
// circuit opened, so that somebody is there to probe.
func (s *State) othersLive(name string) bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Name != name && h.liveAt(s.Since, &s.Policy) })
}

// isReport reports whether e tells that its worker is at work.
func (e *Event) isReport() bool {
	return e.Kind == KindEvidence || e.Kind == KindLease || e.Kind == KindDenied
}

// sees notes that a host has reported. Where there are too many the one makes
// room that was not seen for the longest time, rather one that is well.
func (s *State) sees(e *Event, t time.Time) {
	name := HostOf(e.Worker)
	if h := s.host(name); h != nil {
		if t.After(h.Seen) {
			h.Seen = t
		}
		return
	}
	if len(s.Hosts) >= MaxQuorum {
		out := 0
		for i := range s.Hosts {
			if s.Hosts[i].expendable(&s.Hosts[out]) {
				out = i
			}
		}
		s.Hosts = slices.Delete(s.Hosts, out, out+1)
	}
	s.Hosts = append(s.Hosts, Host{Name: name, Seen: t})
}

// expendable reports whether h makes room before other.
func (h *Host) expendable(other *Host) bool {
	if failing := h.failing(); failing != other.failing() {
		return !failing
	}
	return h.Seen.Before(other.Seen)
}

// failing reports whether the host's own circuit knows of failures.
func (h *Host) failing() bool {
	own := h.Own
	return own != nil && (own.Phase != Closed || own.Streak > 0 || len(own.Marks) > 0 || !clean(own.Windows))
}

// blame notes the failure e, the next vote, with its host.
func (s *State) blame(e *Event) {
	h := s.host(HostOf(e.Worker))
	if h == nil || s.Policy.Quorum <= 1 {
		return
	}
	h.Failed, h.Vote = e.At, s.Votes+1
	if s.onClass(e.Class) {
		h.Class = e.Class
	}
}

// blameSlow notes a slow result with its host.
func (s *State) blameSlow(e *Event) {
	if h := s.host(HostOf(e.Worker)); h != nil && s.Policy.Quorum > 1 {
		h.Slow = e.At
	}
}

// quorate reports whether enough of the hosts that are live at t have failed,
// as failed tells.
func (s *State) quorate(t time.Time, failed func(*Host) bool) bool {
	if s.Policy.Quorum <= 1 {
		return true
	}
	live, bad := 0, 0
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if !h.liveAt(t, &s.Policy) {
			continue
		}
		live++
		if failed(h) {
			bad++
		}
	}
	return bad >= min(s.Policy.Quorum, live)
}

// ruleQuorate reports whether enough hosts have part in what rule counts at t.
func (s *State) ruleQuorate(rule *Trip, t time.Time) bool {
	return s.quorate(t, func(h *Host) bool {
		newest := Mark{At: h.Failed, Vote: h.Vote}
		switch rule.kind {
		case tripStreak:
			return !h.Failed.IsZero() && h.Vote > s.Worked
		case tripSlow:
			newest.At = h.Slow
		}
		return !newest.At.IsZero() && rule.spans(&newest, t) && !rule.outvoted(&newest, s.Votes)
	})
}

// classQuorate reports whether enough hosts have failed with a class that opens
// the circuit at once.
func (s *State) classQuorate(t time.Time) bool {
	return s.quorate(t, func(h *Host) bool { return h.Class != "" && s.onClass(h.Class) })
}

// applyOwn folds e into the circuit of its host's own, by the same rules.
func (s *State) applyOwn(e *Event) {
	h := s.host(HostOf(e.Worker))
	stale := e.Admitted && e.Version != s.Version // it has no vote in the circuit either
	if h == nil || stale || !h.concerns(e, s.Policy.hasShare()) {
		return
	}
	if h.Own == nil {
		h.Own = &OwnCircuit{Since: h.Since}
		if s.Since.After(h.Since) {
			h.Own.Since = s.Since
		}
	}
	own, o := h.state(s), *e
	own.Throttled = s.Throttled
	o.Version = own.Version
	o.Admitted = e.Lease != "" // others count by when they began: their version is the circuit's
	if o.Kind == KindEvidence {
		o.Until = time.Time{} // throttles are the circuit's
		if o.Outcome == Throttled {
			o.Outcome = Canceled
		}
	}
	before := own.Phase
	own.apply(&o)
	switch {
	case own.Phase != Closed:
	case before != Closed: // what came before its recovery has no part in the quorum either
		*h = Host{Name: h.Name, Seen: h.Seen, Since: own.Since}
		return
	case !own.remembers(e.clock()):
		h.Own = nil
		return
	}
	h.keep(&own)
}

// remembers reports whether a closed circuit knows at t of anything that its
// rules may look at.
func (s *State) remembers(t time.Time) bool {
	if s.Policy.hasShare() || s.CountAt(t) > 0 {
		return true
	}
	within, _ := s.Policy.horizon()
	oldest := s.latest(within, t).Add(-within)
	return s.Policy.Distinct && slices.ContainsFunc(s.Marks, func(m Mark) bool { return !m.At.Before(oldest) })
}

// concerns reports whether e is for the host's own circuit. That begins with a
// failure, or where there are shares with what they are of; what it is asked and
// refuses is told to it while it is not closed.
func (h *Host) concerns(e *Event, shares bool) bool {
	switch e.Kind {
	case KindEvidence:
		begins := e.Outcome == Failure || shares && (e.Outcome == Success || e.Outcome == Rejected)
		return h.Own != nil || begins && !e.Late && e.Lease == ""
	case KindLease, KindDenied:
		return h.Own != nil && h.Own.Phase != Closed
	}
	return false
}

func hashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// forgive ends the hosts' own circuits and forgets who failed.
func (s *State) forgive() {
	for i := range s.Hosts {
		h := &s.Hosts[i]
		*h = Host{Name: h.Name, Seen: h.Seen}
	}
}

// ownPhase is the phase of the host's own circuit.
func (s *State) ownPhase(name string) Phase {
	if h := s.host(name); h != nil && h.Own != nil {
		return h.Own.Phase
	}
	return Closed
}

// ownChanged returns the change of a host's own circuit between two states
// that follow each other, and whether there was one.
func ownChanged(circuit string, before, after *State) (Transition, bool) {
	for i := range after.Hosts {
		h := &after.Hosts[i]
		from, to := before.ownPhase(h.Name), after.ownPhase(h.Name)
		if from == to {
			continue
		}
		t := Transition{Circuit: circuit, Host: h.Name, From: from, To: to, At: h.Seen, Cause: "probe succeeded"}
		if own := h.Own; own != nil {
			t.At, t.Version, t.Until, t.Cause = own.Since, own.Version, own.Until, own.Cause
			if from == Closed {
				t.Failures = own.Failures
			}
		}
		return t, true
	}
	return Transition{}, false
}
