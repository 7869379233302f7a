package fusebox

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// UnmarshalText reads what [Health.String] returns.
func (h *Health) UnmarshalText(b []byte) error {
	for known := Unknown; known <= Down; known++ {
		if known.String() == string(b) {
			*h = known
			return nil
		}
	}
	return fmt.Errorf("fusebox: unknown health %q", b)
}

// UnmarshalJSON reads what [Status.MarshalJSON] writes, of another process say.
// The policy is not in it.
func (s *Status) UnmarshalJSON(b []byte) error {
	var in statusJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	read := Status{
		Circuit: in.Circuit, Phase: in.Phase, Health: in.Health, Version: in.Version, Failures: in.Failures,
		RetryAfter: seconds(in.RetryAfter), Since: moment(in.Since), Reason: in.Reason,
		LastError: in.LastError, LastClass: in.LastClass, CheckedAt: moment(in.CheckedAt), Throttled: moment(in.ThrottledUntil),
		Denied: in.Denied, Probes: in.Probes, Local: in.Local, LocalSince: moment(in.LocalSince), Host: in.Host,
	}
	if in.Latency != nil {
		read.Latency = seconds(*in.Latency / 1000)
	}
	if in.Held != nil {
		read.Held = &Hold{Until: moment(in.HeldUntil), Reason: in.HeldReason}
		if err := read.Held.To.UnmarshalText([]byte(*in.Held)); err != nil {
			return err
		}
	}
	for _, h := range in.Hosts {
		read.Hosts = append(read.Hosts, HostStatus{h.Host, h.Phase, h.Failures, seconds(h.RetryAfter), moment(h.Since), h.LastError})
	}
	*s = read
	return nil
}

// UnmarshalJSON reads what [RunStatus.MarshalJSON] writes.
func (r *RunStatus) UnmarshalJSON(b []byte) error {
	var in runStatusJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*r = RunStatus{in.Run, in.Stuck, in.Struggling, in.Denied, in.Outcome, moment(in.Since)}
	return nil
}

// UnmarshalJSON reads what [StoreStatus.MarshalJSON] writes.
func (s *StoreStatus) UnmarshalJSON(b []byte) error {
	var in storeStatusJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*s = StoreStatus{Address: in.Address, Answers: in.Answers, Error: in.Error, Clock: moment(in.Clock)}
	if in.Latency != nil {
		s.Latency = seconds(*in.Latency / 1000)
	}
	return nil
}

// moment is the inverse of momentOrNull.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// seconds is a duration of so many, of those that a duration can hold.
func seconds(n float64) time.Duration {
	return time.Duration(min(max(math.Round(n*1e6)*1e3, 0), math.MaxInt64/2))
}
