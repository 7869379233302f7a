package main

import (
	"fmt"

	"github.com/fusebox-go/fusebox"
)

// thresholds are what a policy's count of failures comes to over the workers
// that report. Workers share a store, so its threshold is what the dependency
// gets to see; were each of them to count alone, it would be that many times.
type thresholds struct {
	Effective int `json:"effective_threshold"` // 0 = nothing is counted
	Workers   int `json:"workers"`             // seen lately
	Unshared  int `json:"unshared_threshold"`

	machines bool // share the store
}

func thresholdsOf(p fusebox.Policy, workers int, machines bool) thresholds {
	least := 0
	for _, t := range p.Trip {
		if n, counted := t.Threshold(); counted && (least == 0 || n < least) {
			least = n
		}
	}
	return thresholds{least, workers, least * max(workers, 1), machines}
}

// words tell the arithmetic: what is not shared, multiplies.
func (t thresholds) words() string {
	if t.Effective == 0 {
		return ""
	}
	s := "effective threshold: " + countOf(t.Effective, "failure")
	switch {
	case t.Workers > 1 && t.machines:
		s += fmt.Sprintf(" over the %d workers that share the store", t.Workers)
	case t.Workers > 1:
		s += fmt.Sprintf(" over the %d workers of this machine that share the store", t.Workers)
	case t.machines:
		s += " over all workers that share the store"
	}
	if t.Workers > 1 {
		s += fmt.Sprintf("; were each to count alone, %d times %d: %d", t.Workers, t.Effective, t.Unshared)
	}
	if !t.machines {
		s += "; times the machines, as each has a store of its own"
	}
	return s
}
