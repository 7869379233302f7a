package fusebox

import (
	"bytes"
	"encoding/json"
	"time"
)

// Status is what is known of a circuit at one instant, for people and programs.
type Status struct {
	Circuit    string
	Phase      Phase // that decides: a hold included
	Health     Health
	Version    uint64
	Failures   int           // while closed: how near to opening; else the count that opened it
	RetryAfter time.Duration // while refusing: until asking again is worth it
	Since      time.Time     // when the phase began; zero = never changed
	Reason     string        // why it is where it is
	LastError  string
	LastClass  Class
	Latency    time.Duration // moving average of calls that answered; 0 = unknown
	CheckedAt  time.Time     // newest evidence; zero = unknown
	Throttled  time.Time     // end of the throttle; zero = none
	Held       *Hold         // in force; nil = none
	Denied     int           // refusals since it last opened
	Probes     []Lease       // under way
	Local      bool          // the store is out of reach: this is what the process itself knows
	LocalSince time.Time
	Policy     Policy

	// Under a quorum: whose own circuit this is, "" = the circuit itself; and of
	// the circuit itself the hosts whose own circuits are not closed.
	Host  string
	Hosts []HostStatus
}

// HostStatus is what is known of a host's own circuit.
type HostStatus struct {
	Host       string
	Phase      Phase
	Failures   int           // that opened it
	RetryAfter time.Duration // until its next call is worth it
	Since      time.Time
	LastError  string
}

// StatusAt derives the status of the named circuit at t. It has no effects.
func (s *State) StatusAt(circuit string, t time.Time) Status {
	d := s.Decide(t)
	status := Status{
		Circuit: circuit, Phase: s.PhaseAt(t), Health: s.HealthAt(t), Version: s.Version,
		Failures: s.CountAt(t), RetryAfter: d.RetryAfter, Since: s.Since, Reason: s.Cause,
		LastError: s.LastError, LastClass: s.LastClass, Latency: s.Latency, CheckedAt: s.Checked,
		Denied: s.Denied, Policy: s.Policy,
	}
	if s.Policy.IsZero() {
		status.Policy = DefaultPolicy(Kind(circuit))
	}
	if t.Before(s.Throttled) {
		status.Throttled = s.Throttled
	}
	if s.Hold.active(t) {
		hold := *s.Hold
		status.Held = &hold
	}
	for _, l := range s.Leases {
		if l.live(t) {
			status.Probes = append(status.Probes, l)
		}
	}
	status.Host = s.ownOf
	if status.Host == "" {
		status.Hosts = s.hostsAt(t)
	}
	return status
}

// hostsAt lists the hosts whose own circuits are not closed.
func (s *State) hostsAt(t time.Time) (hosts []HostStatus) {
	for _, h := range s.Hosts {
		if h.Own == nil || h.Own.Phase == Closed {
			continue
		}
		own := h.deciding(s)
		hosts = append(hosts, HostStatus{Host: h.Name, Phase: own.Phase, Failures: own.Failures,
			RetryAfter: own.Decide(t).RetryAfter, Since: own.Since, LastError: own.LastError})
	}
	return hosts
}

// statusJSON is the contract's form of a status.
type statusJSON struct {
	Circuit        string     `json:"circuit"`
	Phase          Phase      `json:"phase"`
	Health         Health     `json:"health"`
	Version        uint64     `json:"version"`
	Failures       int        `json:"failures"`
	RetryAfter     float64    `json:"retry_after_s"`
	Since          *time.Time `json:"since"`
	Reason         string     `json:"reason"`
	LastError      string     `json:"last_error"`
	LastClass      Class      `json:"last_class,omitempty"`
	Latency        *float64   `json:"latency_ms"`
	CheckedAt      *time.Time `json:"checked_at"`
	ThrottledUntil *time.Time `json:"throttled_until"`
	Held           *string    `json:"held"`
	HeldUntil      *time.Time `json:"held_until,omitempty"`
	HeldReason     string     `json:"held_reason,omitempty"`
	Denied         int        `json:"denied"`
	Probes         []Lease    `json:"probes,omitempty"`
	Local          bool       `json:"local"`
	LocalSince     *time.Time `json:"local_since,omitempty"`
	Host           string     `json:"host,omitempty"`
	Hosts          []hostJSON `json:"hosts,omitempty"`
}

type hostJSON struct {
	Host       string     `json:"host"`
	Phase      Phase      `json:"phase"`
	Failures   int        `json:"failures"`
	RetryAfter float64    `json:"retry_after_s"`
	Since      *time.Time `json:"since"`
	LastError  string     `json:"last_error"`
}

// MarshalJSON writes the status object of docs/log-format.md; what is unknown is null.
func (s Status) MarshalJSON() ([]byte, error) {
	out := statusJSON{
		Circuit: s.Circuit, Phase: s.Phase, Health: s.Health, Version: s.Version, Failures: s.Failures,
		RetryAfter: roundMillis(s.RetryAfter), Since: momentOrNull(s.Since), Reason: s.Reason,
		LastError: s.LastError, LastClass: s.LastClass, CheckedAt: momentOrNull(s.CheckedAt),
		ThrottledUntil: momentOrNull(s.Throttled), Denied: s.Denied, Probes: s.Probes,
		Local: s.Local, LocalSince: momentOrNull(s.LocalSince), Host: s.Host,
	}
	for _, h := range s.Hosts {
		out.Hosts = append(out.Hosts, hostJSON{h.Host, h.Phase, h.Failures, roundMillis(h.RetryAfter), momentOrNull(h.Since), h.LastError})
	}
	if s.Latency > 0 {
		ms := float64(s.Latency.Microseconds()) / 1000
		out.Latency = &ms
	}
	if s.Held != nil {
		to := s.Held.To.String()
		out.Held, out.HeldUntil, out.HeldReason = &to, momentOrNull(s.Held.Until), s.Held.Reason
	}
	return marshal(out)
}

func momentOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// marshal is json.Marshal without the escaping of <, > and &, which only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
