package replay

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
)

func TestStreakCalls(t *testing.T) {
	for _, test := range []struct {
		p    float64
		k    int
		want float64
	}{
		{0.2, 3, 155}, {0.05, 3, 8420}, {0.01, 2, 10100}, {0.05, 2, 420}, {0.2, 2, 30}, {0.2, 5, 3905}, {0.1, 5, 111110}, {0.5, 1, 2},
	} {
		if got := StreakCalls(test.p, test.k); math.Abs(got-test.want) > 0.5 {
			t.Errorf("p=%v k=%d: got %v, want %v", test.p, test.k, got, test.want)
		}
	}
}

func TestOfCalls(t *testing.T) {
	if got := OfCalls(0.1, 6, 20); math.Round(got) != 549 {
		t.Errorf("6 of 20 at 10 %%: got %v, want 549", got)
	}
	for _, test := range []struct {
		p    float64
		k, m int
	}{{0.1, 5, 10}, {0.05, 3, 6}, {0.1, 6, 12}, {0.2, 5, 8}, {0.3, 4, 4}, {0.02, 2, 10}} {
		got, want := OfCalls(test.p, test.k, test.m), exactOfCalls(test.p, test.k, test.m)
		if math.Abs(got-want) > 0.02*want {
			t.Errorf("%+v: got %v, want %v", test, got, want)
		}
	}
	if got := OfCalls(0.9, 3, 10); math.Abs(got-3/0.9) > 1e-9 {
		t.Errorf("where it is normal: got %v, want the calls of 3 failures", got)
	}
}

// exactOfCalls follows the probability of every window that has not tripped.
func exactOfCalls(p float64, k, m int) float64 {
	mask := uint32(1)<<(m-1) - 1
	now := map[uint32]float64{0: 1}
	calls, alive := 0.0, 1.0
	for alive > 1e-9 && calls < 1e7 {
		calls += alive
		later := map[uint32]float64{}
		before := alive
		alive = 0
		for window, share := range now {
			later[window<<1&mask] += share * (1 - p)
			alive += share * (1 - p)
			if bits.OnesCount32(window)+1 < k {
				later[(window<<1|1)&mask] += share * p
				alive += share * p
			}
		}
		if now = later; calls > 500 { // the rest is a geometric series
			return calls + alive/(1-alive/before)
		}
	}
	return calls
}

func TestWithinSeconds(t *testing.T) {
	hours := func(replicas float64) float64 { return WithinSeconds(0.01, 0.1*replicas, 5, 60) / 3600 }
	if got := hours(5); math.Abs(got-236) > 2 {
		t.Errorf("5 replicas: one false open in %v h, want 236", got)
	}
	if got := hours(20) * 60; math.Abs(got-43) > 1 {
		t.Errorf("20 replicas: one in %v min, want 43", got)
	}
	if got := hours(100) * 3600; got != 50 {
		t.Errorf("100 replicas: one in %v s, want 50: what 5 failures take", got)
	}
}

// TestSmallestThresholds has the smallest thresholds with less than one false
// open in 30 days, for 0.1, 1, 10, 100 and 1000 calls a second.
func TestSmallestThresholds(t *testing.T) {
	const month = 30 * 24 * 3600
	smallest := func(seconds func(k int) float64) int {
		k := 1
		for seconds(k) < month {
			k++
		}
		return k
	}
	var of1, of10, within []int
	for _, rate := range []float64{0.1, 1, 10, 100, 1000} {
		of1 = append(of1, smallest(func(k int) float64 { return OfCalls(0.01, k, 2*k) / rate }))
		of10 = append(of10, smallest(func(k int) float64 { return OfCalls(0.1, k, 2*k) / rate }))
		within = append(within, smallest(func(k int) float64 { return WithinSeconds(0.01, rate, k, 60) }))
	}
	if got, want := fmt.Sprint(of1, of10, within), "[4 4 5 6 7] [10 12 14 17 19] [4 7 21 101 720]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWilson(t *testing.T) {
	for _, test := range []struct {
		hits, n   int64
		low, high float64
	}{{0, 0, 0, 1}, {0, 10, 0, 0.2775}, {10, 1000, 0.0054, 0.0183}, {50, 100, 0.4038, 0.5962}} {
		low, high := wilson(test.hits, test.n)
		if math.Abs(low-test.low) > 1e-4 || math.Abs(high-test.high) > 1e-4 {
			t.Errorf("%d of %d: got %.4f to %.4f, want %.4f to %.4f", test.hits, test.n, low, high, test.low, test.high)
		}
	}
}
