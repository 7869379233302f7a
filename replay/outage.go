package replay

import (
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Outage is one caller of a dependency that is down for its first calls. The
// circuit guards a whole run: the calls that it makes until one succeeds.
type Outage struct {
	Calls      int             // that the dependency fails before it is back
	Runs       int             // that the caller starts, one after the other
	MaxRetries int             // calls a run makes at most
	Every      time.Duration   // from one run to the next, in virtual time; calls take none
	Policy     *fusebox.Policy // nil = no circuit
	Seed       uint64          // of the cooldown's jitter
}

// OutageRun is what became of one run.
type OutageRun struct {
	Run     int           `json:"run"` // from 1
	Before  fusebox.Phase `json:"before"`
	After   fusebox.Phase `json:"after"`
	Calls   int           `json:"calls"`
	Outcome string        `json:"outcome"` // "ok", "failed" or "denied"
	Probe   bool          `json:"probe,omitempty"`
}

// OutageSummary counts over all runs.
type OutageSummary struct {
	Runs         int `json:"runs"`
	Calls        int `json:"calls"` // that were made
	Denied       int `json:"denied"`
	OK           int `json:"ok"`
	Failed       int `json:"failed"`
	Probes       int `json:"probes"`
	ProbesFailed int `json:"probes_failed"`
}

// AppendLine appends r as one line of JSON.
func (r *OutageRun) AppendLine(b []byte) []byte { return appendLine(b, r) }

// AppendLine appends {"summary":{…}} as one line of JSON.
func (s *OutageSummary) AppendLine(b []byte) []byte { return appendLine(b, summaryLine{s}) }

// Simulate makes the runs and tells of each, in order. o must be sensible:
// Calls 0 or more, Runs and MaxRetries at least 1, Policy valid.
func (o Outage) Simulate(tell func(OutageRun)) OutageSummary {
	var policy fusebox.Policy // without a rule nothing ever opens
	if o.Policy != nil {
		policy = *o.Policy
	} else {
		policy.Probe = fusebox.Probe{Concurrent: 1, CloseAfter: 1}
	}
	state := fusebox.State{Policy: policy, Seed: o.Seed}
	s := OutageSummary{Runs: o.Runs}
	for i := range o.Runs {
		at := time.Unix(0, 0).Add(time.Duration(i) * o.Every).UTC()
		r := OutageRun{Run: i + 1, Before: state.Phase}
		o.run(&state, &r, at, s.Calls)
		r.After = state.Phase
		s.count(&r)
		tell(r)
	}
	return s
}

// run asks the circuit, calls if it may, and reports.
func (o Outage) run(state *fusebox.State, r *OutageRun, at time.Time, made int) {
	d := state.Decide(at)
	if !d.Go && !d.Probe {
		r.Outcome = "denied"
		state.Apply(&fusebox.Event{Kind: fusebox.KindDenied, At: at, Reason: d.Reason})
		return
	}
	report := fusebox.Event{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassServer, Admitted: true}
	most := o.MaxRetries
	if d.Probe {
		r.Probe = true
		report.Lease = "run-" + strconv.Itoa(r.Run)
		state.Apply(&fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Lease: report.Lease})
		if attempts := state.Policy.Probe.Attempts; attempts > 0 {
			most = attempts
		}
	}
	report.Version = state.Version
	r.Outcome = "failed"
	for r.Calls < most && r.Outcome == "failed" {
		r.Calls++
		if made+r.Calls > o.Calls {
			r.Outcome, report.Outcome, report.Class = "ok", fusebox.Success, ""
		}
	}
	report.Attempts = r.Calls
	state.Apply(&report)
}

func (s *OutageSummary) count(r *OutageRun) {
	s.Calls += r.Calls
	switch r.Outcome {
	case "ok":
		s.OK++
	case "failed":
		s.Failed++
	case "denied":
		s.Denied++
	}
	if r.Probe {
		s.Probes++
		if r.Outcome == "failed" {
			s.ProbesFailed++
		}
	}
}
