package replay

import (
	"encoding/json"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Summary counts what a policy would have done to one circuit's calls.
type Summary struct {
	Circuit         string `json:"circuit"`
	Calls           int    `json:"calls"` // recorded, whatever their outcome
	Admitted        int    `json:"admitted"`
	Denied          int    `json:"denied"`
	FailuresSeen    int    `json:"failures_seen"`    // admitted calls that had failed
	FailuresSpared  int    `json:"failures_spared"`  // denied calls that had failed
	SuccessesDenied int    `json:"successes_denied"` // denied calls that had succeeded
	Opened          int    `json:"opened"`           // closed to open
	Probes          int    `json:"probes"`           // admitted
	ProbesFailed    int    `json:"probes_failed"`    // half-open to open
}

func (s *Summary) admit(o fusebox.Outcome) {
	s.Admitted++
	if o == fusebox.Failure {
		s.FailuresSeen++
	}
}

func (s *Summary) deny(o fusebox.Outcome) {
	s.Denied++
	switch o {
	case fusebox.Failure:
		s.FailuresSpared++
	case fusebox.Success:
		s.SuccessesDenied++
	}
}

// Report is the result of a replay.
type Report struct {
	Summaries []Summary // one per circuit, in name order; never empty
	Malformed int       // lines that were skipped
}

// AppendLines appends the report as JSON Lines: {"summary":{…}} for each
// circuit, the first with the count of malformed lines.
func (r *Report) AppendLines(b []byte) []byte {
	for i, s := range r.Summaries {
		if i > 0 {
			b = appendLine(b, summaryLine{s})
			continue
		}
		b = appendLine(b, summaryLine{struct {
			Summary
			Malformed int `json:"malformed"`
		}{s, r.Malformed}})
	}
	return b
}

// AppendTransition appends t as one line of JSON, as replay prints it.
func AppendTransition(b []byte, t fusebox.Transition) []byte {
	return appendLine(b, struct {
		At       time.Time     `json:"at"`
		Circuit  string        `json:"circuit"`
		From     fusebox.Phase `json:"from"`
		To       fusebox.Phase `json:"to"`
		Version  uint64        `json:"version"`
		Failures int           `json:"failures"`
	}{t.At.UTC(), t.Circuit, t.From, t.To, t.Version, t.Failures})
}

type summaryLine struct {
	Summary any `json:"summary"`
}

// appendLine appends v, which is made of names, numbers and times of this
// millennium, as one line of JSON.
func appendLine(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(append(b, text...), '\n')
}
