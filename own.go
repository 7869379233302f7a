package fusebox

import (
	"slices"
	"time"
)

// OwnCircuit is a circuit of one host's own: the part of a [State] that it
// needs. Policy, seed and throttle are those of the circuit that it belongs to.
type OwnCircuit struct {
	Phase   Phase     `json:"phase,omitempty"`
	Version uint64    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Cause   string    `json:"cause,omitempty"`

	Failures     int     `json:"failures,omitempty"`
	FailedProbes int     `json:"failed_probes,omitempty"`
	Refused      int     `json:"refused,omitempty"`
	Denied       int     `json:"denied,omitempty"`
	Passed       int     `json:"passed,omitempty"`
	Leases       []Lease `json:"leases,omitempty"`
	Resort       bool    `json:"last_resort,omitempty"`

	Votes   uint64    `json:"votes,omitempty"`
	Worked  uint64    `json:"worked,omitempty"`
	Streak  int       `json:"streak,omitempty"`
	Marks   Marks     `json:"marks,omitempty"`
	Windows []Window  `json:"windows,omitempty"`
	Latest  time.Time `json:"latest,omitzero"`

	LastError string `json:"last_error,omitempty"` // while it is not closed
}

// state returns the host's own circuit as a state, to decide by or to fold.
func (h *Host) state(s *State) State {
	o := h.Own
	return State{
		Phase: o.Phase, Version: o.Version, Since: o.Since, Until: o.Until, Cause: o.Cause,
		Failures: o.Failures, FailedProbes: o.FailedProbes, Refused: o.Refused, Denied: o.Denied, Passed: o.Passed,
		Leases: o.Leases, Resort: o.Resort,
		Votes: o.Votes, Worked: o.Worked, Streak: o.Streak, Marks: o.Marks, Windows: o.Windows, Latest: o.Latest,
		LastError: o.LastError,
		Policy:    s.ownPolicy(), Seed: s.Seed ^ hashName(h.Name)>>11,
	}
}

// keep takes over what was made of the host's own circuit.
func (h *Host) keep(s *State) {
	h.Own = &OwnCircuit{
		Phase: s.Phase, Version: s.Version, Since: s.Since, Until: s.Until, Cause: s.Cause,
		Failures: s.Failures, FailedProbes: s.FailedProbes, Refused: s.Refused, Denied: s.Denied, Passed: s.Passed,
		Leases: s.Leases, Resort: s.Resort,
		Votes: s.Votes, Worked: s.Worked, Streak: s.Streak, Marks: s.Marks, Windows: s.Windows, Latest: s.Latest,
	}
	if s.Phase != Closed {
		h.Own.LastError = s.LastError
	}
}

// clone returns a copy that shares nothing that folding changes.
func (o OwnCircuit) clone() *OwnCircuit {
	o.Leases, o.Marks, o.Windows = slices.Clone(o.Leases), slices.Clone(o.Marks), cloneWindows(o.Windows)
	return &o
}
