package main

// findings are what was measured, for the tables that compare.
type findings struct {
	rounds   int
	speeds   map[speedKey][]*subject // one caller
	parallel map[speedKey][]*subject // as many as cores
	bytes    map[string][2]int64     // of a circuit by library: idle, and after a failure
	passed   map[string]int          // odd cases by library
	stored   map[storeKey]spread     // microseconds
	fronts   []*front
}

type speedKey struct {
	workload string
	rule     rule
}

func newFindings(rounds int) *findings {
	return &findings{
		rounds: rounds, speeds: map[speedKey][]*subject{}, parallel: map[speedKey][]*subject{}, bytes: map[string][2]int64{},
		stored: map[storeKey]spread{},
	}
}

// speed is what was measured of a library, nil if it has no such rule.
func (f *findings) speed(workload string, r rule, library string) *subject {
	return find(f.speeds[speedKey{workload, r}], library)
}
