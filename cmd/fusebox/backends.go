package main

import (
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

// backendDiagnosis is a backend's health, from the circuits of its models. What
// it says of failures and times is that of the circuit that is worst off.
type backendDiagnosis struct {
	Backend   string     `json:"backend"`
	URL       string     `json:"url"`
	Dialect   string     `json:"dialect"`
	Condition string     `json:"condition"`
	Failures  int        `json:"failures"`
	Latency   *float64   `json:"latency_ms"` // of the newest evidence
	CheckedAt *time.Time `json:"checked_at"`
	Since     *time.Time `json:"since"`
	LastError string     `json:"last_error"`
	Do        string     `json:"do,omitempty"` // what mends it, where waiting does not
	Circuits  []string   `json:"circuits"`

	Check *backendCheck `json:"check,omitempty"` // with --check
}

// diagnoseBackend tells a backend's health: down when every circuit with
// evidence is, or when its active checks cannot reach it; unknown when none has
// any and nothing was checked.
func diagnoseBackend(b config.Backend, circuits []circuitDiagnosis) backendDiagnosis {
	d := backendDiagnosis{Backend: b.Name, URL: b.URL, Dialect: string(b.Dialect), Circuits: []string{}, Condition: conditionUnknown}
	count := map[string]int{}
	var newest time.Time
	for i := range circuits {
		c := &circuits[i]
		if !strings.HasPrefix(c.Circuit, circuitPrefix(b.Name)) {
			continue
		}
		d.Circuits = append(d.Circuits, c.Circuit)
		count[c.Condition]++
		if c.Condition == conditionUnknown {
			continue
		}
		if c.CheckedAt.After(newest) {
			newest = c.CheckedAt
			d.checked(c)
		}
		if d.LastError == "" || c.Failures > d.Failures {
			d.Failures, d.LastError = max(d.Failures, c.Failures), c.LastError
			if !c.Since.IsZero() {
				d.Since = &c.Since
			}
		}
	}
	d.Condition = together(count)
	if c := find(circuits, checkCircuit(b.Name)); c != nil && c.Condition != conditionUnknown {
		d.Circuits = append(d.Circuits, c.Circuit)
		if d.Condition == conditionUnknown || c.Condition == conditionDown || c.Condition == conditionHeld { // what cannot be reached serves no model
			d.Condition, d.Failures, d.LastError = c.Condition, c.Failures, c.LastError
			d.checked(c)
			if !c.Since.IsZero() {
				d.Since = &c.Since
			}
		}
	}
	if c := find(circuits, credentialCircuit(b.Key)); c != nil && (c.Condition == conditionDown || c.Condition == conditionThrottled) {
		d.Condition, d.LastError, d.Failures = c.Condition, c.LastError, c.Failures // no model is to be had without it
		if c.Condition == conditionDown && c.LastClass == fusebox.ClassAuth {
			d.Do = renewKey(b.Key, c.Circuit)
		}
	}
	return d
}

// checked says when the backend was heard of last, and how fast it answers.
func (d *backendDiagnosis) checked(c *circuitDiagnosis) {
	d.CheckedAt = &c.CheckedAt
	if c.Latency > 0 {
		ms := float64(c.Latency.Microseconds()) / 1000
		d.Latency = &ms
	}
}

// renewKey says what to do about a key that is refused.
func renewKey(key config.Secret, circuit string) string {
	place := "the environment variable " + key.Env
	if key.Env == "" {
		place = "the file " + key.File
	}
	return "its key is refused: put a good one into " + place + ", start what serves it again, then fusebox reset " + circuit
}

// find returns the circuit of that name, or nil.
func find(circuits []circuitDiagnosis, name string) *circuitDiagnosis {
	for i := range circuits {
		if circuits[i].Circuit == name {
			return &circuits[i]
		}
	}
	return nil
}

// credentialCircuit guards a key, whichever backends share it; "" = none.
func credentialCircuit(key config.Secret) string {
	if key.IsZero() {
		return ""
	}
	name, err := fusebox.CanonicalName("credential/" + credentialName(key))
	if err != nil {
		return ""
	}
	return name
}

// credentialName names a key without telling it: its variable, or its file.
func credentialName(key config.Secret) string {
	if key.Env != "" {
		return key.Env
	}
	return strings.TrimPrefix(key.File, "/")
}

// together is the condition of several circuits: the best that one of them is
// in, because that one can be used.
func together(count map[string]int) string {
	for _, c := range []string{conditionUp, conditionThrottled, conditionHeld, conditionDown} {
		if count[c] > 0 {
			return c
		}
	}
	return conditionUnknown
}

// checkCircuit is the circuit of what a backend's active checks show.
func checkCircuit(backend string) string { return "check/" + backend }

// circuitPrefix is where the circuits of a backend's models begin.
func circuitPrefix(backend string) string { return "model/" + backend + "/" }

func backendTable(backends []backendDiagnosis, now time.Time) *table {
	t := &table{}
	t.row("BACKEND", "HEALTH", "FAILURES", "LATENCY", "CHECKED", "SINCE", "LAST ERROR", "URL")
	moment := func(at *time.Time) string {
		if at == nil {
			return ""
		}
		return ago(*at, now)
	}
	for _, b := range backends {
		latency := ""
		if b.Latency != nil {
			latency = roughly(time.Duration(*b.Latency * float64(time.Millisecond)))
		}
		t.row(b.Backend, cell{b.Condition, conditionColours[b.Condition]}, b.Failures, latency,
			moment(b.CheckedAt), moment(b.Since), b.LastError, b.URL)
	}
	return t
}
