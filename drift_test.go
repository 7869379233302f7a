package fusebox_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/fusebox-go/fusebox"
)

// until feeds d attempts of which a share fails, and returns after how many
// its answer changed; limit if it did not.
func until(d *fusebox.Drift, random *rand.Rand, share float64, limit int) int {
	for n := range limit {
		failed, worked := 0, 1
		if random.Float64() < share {
			failed, worked = 1, 0
		}
		if d.Add(failed, worked) {
			return n + 1
		}
	}
	return limit
}

func TestDriftIsSeenAndEnds(t *testing.T) {
	tests := []struct {
		name           string
		normal, raised float64
		within         int
	}{
		{"from 1 % to 10 %", 0.01, 0.1, 500},
		{"from 1 % to 20 %", 0.01, 0.2, 150},
		{"from 10 % to 40 %", 0.1, 0.4, 150},
		{"from nothing to everything", 0, 1, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				random := rand.New(rand.NewPCG(seed, 1))
				d := &fusebox.Drift{}
				if n := until(d, random, tt.normal, 5000); n != 5000 {
					t.Fatalf("seed %d: false alarm after %d attempts", seed, n)
				}
				if n := until(d, random, tt.raised, 2000); n > tt.within || !d.Degrading() {
					t.Errorf("seed %d: seen after %d attempts, want %d", seed, n, tt.within)
				}
				if n := until(d, random, tt.normal, 2000); n == 2000 || d.Degrading() {
					t.Errorf("seed %d: not over after %d normal attempts", seed, n)
				}
			}
		})
	}
}

func TestDriftSaysNothingOfADependencyThatAlwaysFailedSo(t *testing.T) {
	for seed := range uint64(20) {
		d := &fusebox.Drift{}
		if n := until(d, rand.New(rand.NewPCG(seed, 2)), 0.15, 20_000); n != 20_000 {
			t.Errorf("seed %d: alarm after %d attempts", seed, n)
		}
	}
}

func TestAbsorbedFailuresAreReportedAsDegrading(t *testing.T) {
	b := newBox(t, fusebox.Config{Retry: fusebox.Retry{Attempts: 2, Budget: fusebox.Budget{Ratio: 1, PerMinute: 1000}}})
	c, r := circuit(t, b, "model/a"), b.Run("r")
	var notices []fusebox.Notice
	b.OnNotice(func(n fusebox.Notice) { notices = append(notices, n) })
	call := func(failsFirst bool) {
		t.Helper()
		s := answers(nil)
		if failsFirst {
			s = answers(errBroken, nil)
		}
		if _, err := fusebox.Call(context.Background(), r, c, nil, s.next); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		call(false)
	}
	for range 100 {
		call(true)
	}
	wantPhase(t, c, fusebox.Closed)
	if len(notices) != 1 || notices[0].Kind != fusebox.NoticeDegrading || notices[0].Circuit != "model/a" {
		t.Fatalf("notices %+v, want degrading", notices)
	}
	for range 1000 {
		call(false)
	}
	if len(notices) != 2 || notices[1].Kind != fusebox.NoticeSteady {
		t.Errorf("notices %+v, want steady at the end", notices)
	}
	if _, err := fusebox.Call(context.Background(), r, c, nil, answers(nil).next); err != nil {
		t.Errorf("advice refused a call: %v", err)
	}
}
