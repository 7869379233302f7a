package fusebox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// runPrefix is where a run is recorded in a store: as the circuit "run/ID".
const (
	runKind   = "run"
	runPrefix = runKind + "/"
)

// Report is what a store knows at one instant: what `fusebox status --json` and
// the admin listener's /v1/circuits print.
type Report struct {
	Circuits []Status     `json:"circuits"`
	Runs     []RunStatus  `json:"runs"`
	Store    *StoreStatus `json:"store"`   // nil = there is none
	Workers  []Worker     `json:"workers"` // that announced themselves within the last minute
}

// StoreStatus is whether a store answers, and how fast.
type StoreStatus struct {
	Address string // without secrets; empty if the store is not a fmt.Stringer
	Answers bool
	Latency time.Duration // of one read, where it answers
	Error   string        // why it does not
	Clock   time.Time     // the store's, when it answered
}

// storeStatusJSON is the contract's form of a store's status.
type storeStatusJSON struct {
	Address string     `json:"address"`
	Answers bool       `json:"answers"`
	Latency *float64   `json:"latency_ms"`
	Error   string     `json:"error,omitempty"`
	Clock   *time.Time `json:"clock"`
}

// MarshalJSON writes {"address":…,"answers":…,"latency_ms":…,"clock":…}; what is
// unknown is null.
func (s StoreStatus) MarshalJSON() ([]byte, error) {
	out := storeStatusJSON{Address: s.Address, Answers: s.Answers, Error: s.Error, Clock: momentOrNull(s.Clock)}
	if s.Answers {
		ms := float64(s.Latency.Microseconds()) / 1000
		out.Latency = &ms
	}
	return marshal(out)
}

// RunStatus is what a store knows of one run: an agent's or a job's.
type RunStatus struct {
	Run        string     // its id
	Stuck      bool       // every call of it is refused
	Struggling bool       // its calls fail one after the other; known to its own process only
	Denied     int        // calls of it that were refused
	Outcome    RunOutcome // so far
	Since      time.Time  // of its newest change; zero = none
}

// runStatusJSON is the contract's form of a run's status.
type runStatusJSON struct {
	Run        string     `json:"run"`
	Stuck      bool       `json:"stuck"`
	Struggling bool       `json:"struggling,omitempty"`
	Denied     int        `json:"denied"`
	Outcome    RunOutcome `json:"outcome"`
	Since      *time.Time `json:"since"`
}

// MarshalJSON writes {"run":…,"stuck":…,"denied":…,"outcome":…,"since":…}.
func (r RunStatus) MarshalJSON() ([]byte, error) {
	return marshal(runStatusJSON{r.Run, r.Stuck, r.Struggling, r.Denied, r.Outcome, momentOrNull(r.Since)})
}

// ReadReport reads the named circuits from the store, or all of them if no
// names are given. It has no effects. A circuit asked for by name is in the
// report though nothing is known of it. What could be read is returned along
// with the errors of what could not; of a store that does not answer nothing is
// asked twice.
func ReadReport(ctx context.Context, store Store, names ...string) (Report, error) {
	report := Report{Circuits: []Status{}, Runs: []RunStatus{}, Workers: []Worker{}}
	byName := len(names) > 0
	circuit := askedCircuit
	if byName {
		circuit = names[0]
	}
	asked, err := ask(ctx, store, circuit)
	if report.Store = &asked; err != nil {
		return report, err
	}
	var errs []error
	if p, ok := store.(Presence); ok {
		workers, err := p.Workers(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		report.Workers = append(report.Workers, workers...)
	}
	if !byName {
		for name, err := range store.Circuits(ctx) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		state, err := store.Apply(ctx, name, Policy{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now := state.Clock()
		if id, isRun := strings.CutPrefix(name, runPrefix); isRun {
			report.Runs = append(report.Runs, state.runStatusAt(id, now))
			if !byName {
				continue
			}
		}
		report.Circuits = append(report.Circuits, state.StatusAt(name, now))
	}
	return report, errors.Join(errs...)
}

// askedCircuit is read to see whether a store answers, where no other is named.
// Nothing is recorded of it.
const askedCircuit = "store/status"

// ask reads twice: the first answer may take a connection, the second one tells
// how fast the store is.
func ask(ctx context.Context, store Store, circuit string) (StoreStatus, error) {
	var s StoreStatus
	if named, ok := store.(fmt.Stringer); ok {
		s.Address = named.String()
	}
	for range 2 {
		begun := time.Now()
		state, err := store.Apply(ctx, circuit, Policy{})
		if err != nil {
			s.Answers, s.Error = false, ErrorText(err)
			return s, err
		}
		s.Answers, s.Latency, s.Clock = true, time.Since(begun), state.Clock()
	}
	return s, nil
}

// Clock returns the time at which a state just read is to be judged: the
// store's clock where it has one of its own, else this process's.
func (s *State) Clock() time.Time {
	if s.Now.IsZero() {
		return time.Now()
	}
	return s.Now
}

// runStatusAt derives a run's status from the circuit that it is recorded as.
func (s *State) runStatusAt(id string, t time.Time) RunStatus {
	r := RunStatus{Run: id, Stuck: s.stuckAt(t), Denied: s.Denied, Outcome: RunComplete, Since: s.Since}
	switch {
	case r.Stuck:
		r.Outcome = RunFailed
	case r.Denied > 0:
		r.Outcome = RunDegraded
	}
	return r
}

// stuckAt reports whether the state of a run's record refuses every call at t.
func (s *State) stuckAt(t time.Time) bool {
	d := s.Decide(t)
	return !d.Go && !d.Probe
}
