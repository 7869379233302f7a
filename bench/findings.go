package main

// findings are what was measured, for the tables that compare.
type findings struct {
	rounds   int
	trial    bool                    // do as little as shows that the tables work
	speeds   map[speedKey][]*subject // one caller
	parallel map[speedKey][]*subject // as many as cores
	bytes    map[string][2]int64     // of a circuit by library: idle, and after a failure
	passed   map[string]int          // odd cases by library
	stored   map[storeKey]spread     // microseconds
	reports  []crowdFigures          // to fusebox's shared store, by ever more
	outcomes []outcome
	fronts   []*front
	grown    []*grown
	mcp      map[string]map[string]spread // microseconds by transport and way
}

type speedKey struct {
	workload string
	rule     rule
}

func newFindings(rounds int) *findings {
	return &findings{
		rounds: rounds, speeds: map[speedKey][]*subject{}, parallel: map[speedKey][]*subject{}, bytes: map[string][2]int64{},
		stored: map[storeKey]spread{}, mcp: map[string]map[string]spread{},
	}
}

// speed is what was measured of a library, nil if it has no such rule.
func (f *findings) speed(workload string, r rule, library string) *subject {
	return find(f.speeds[speedKey{workload, r}], library)
}

// times is how often to do something, n unless this is a trial.
func (f *findings) times(n int) int {
	if f.trial {
		return 1
	}
	return n
}
