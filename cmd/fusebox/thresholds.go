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
}

func thresholdsOf(p fusebox.Policy, workers int) thresholds {
	least := 0
	for _, t := range p.Trip {
		if n, counted := t.Threshold(); counted && (least == 0 || n < least) {
			least = n
		}
	}
	return thresholds{Effective: least, Workers: workers, Unshared: least * max(workers, 1)}
}

func (t thresholds) words() string {
	switch {
	case t.Effective == 0:
		return ""
	case t.Workers < 2:
		return fmt.Sprintf("effective threshold: %s, times the workers that do not share the store", countOf(t.Effective, "failure"))
	}
	return fmt.Sprintf("effective threshold: %s over the %d workers that share the store (were each to count alone: %d)",
		countOf(t.Effective, "failure"), t.Workers, t.Unshared)
}
