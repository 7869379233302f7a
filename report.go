package fusebox

import (
	"context"
	"errors"
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
	Circuits []Status    `json:"circuits"`
	Runs     []RunStatus `json:"runs"`
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
// with the errors of what could not.
func ReadReport(ctx context.Context, store Store, names ...string) (Report, error) {
	report := Report{Circuits: []Status{}, Runs: []RunStatus{}}
	var errs []error
	byName := len(names) > 0
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
