package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// told makes a history of one result a second: "." worked, "x" failed.
func told(results string) *history {
	h := &history{}
	for i, r := range results {
		h.add(int64(i)*int64(time.Second), r == 'x')
	}
	return h
}

func repeat(s string, n int) (out string) {
	for range n {
		out += s
	}
	return out
}

func TestIncidents(t *testing.T) {
	quiet := repeat(".", 100)
	tests := []struct {
		name string
		h    *history
		want string // numbers of the first and last failure of each
	}{
		{"nothing", told(""), "[]"},
		{"nothing failed", told(quiet), "[]"},
		{"single failures", told(quiet + "x" + quiet + "xx" + quiet), "[]"},
		{"an outage", told(quiet + repeat("x", 10) + quiet), "[[100 109]]"},
		{"an outage at the end", told(quiet + repeat("x", 10)), "[[100 109]]"},
		{"half of the calls fail for a while", told(quiet + repeat("x.", 20) + quiet), "[[100 138]]"},
		{"two outages", told(quiet + repeat("x", 10) + quiet + repeat("x", 20) + quiet), "[[100 109] [210 229]]"},
		{"a probe that works does not end an outage", told(quiet + repeat("x", 10) + "." + repeat("x", 10) + quiet), "[[100 120]]"},
		{"one call in five fails, always", told(repeat("....x", 200)), "[]"},
		{"one call in five fails, and there is an outage", told(repeat("....x", 200) + repeat("x", 40) + repeat("....x", 200)), "[[999 1039]]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := [][2]int64{}
			for _, s := range test.h.incidents() {
				found = append(found, [2]int64{test.h.failures[s.from].number, test.h.failures[s.to].number})
			}
			if got := fmt.Sprint(found); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestNoiseIsNoIncident(t *testing.T) {
	for _, share := range []float64{0.01, 0.05, 0.2, 0.3} {
		r := rand.New(rand.NewPCG(1, 2))
		h := &history{}
		for i := range 50_000 {
			h.add(int64(i), r.Float64() < share)
		}
		if n := len(h.incidents()); n > 1 {
			t.Errorf("%v of calls that fail independently: %d incidents", share, n)
		}
	}
}

func TestNormalOperation(t *testing.T) {
	h := told("..xx..x" + repeat(".", 100) + repeat("x", 20) + repeat(".", 100) + "xxx")
	incidents := h.incidents()
	if failures, results := h.normal(incidents); len(incidents) != 1 || failures != 6 || results != 210 {
		t.Errorf("%d incidents, %d of %d failed beside them", len(incidents), failures, results)
	}
	if got := h.seconds(incidents); got != 229-19 {
		t.Errorf("%v s of normal operation, want the 229 less the 19 of the incident", got)
	}
	if got := h.longestStreak(incidents); got != 3 {
		t.Errorf("longest streak %d, want 3", got)
	}
	if got := h.largestCount(incidents, int64(4*time.Second)); got != 3 {
		t.Errorf("largest count %d, want 3", got)
	}
	if got := h.largestCount(incidents, int64(3*time.Second)); got != 3 {
		t.Errorf("largest count within 3 s %d, want the 3 at the end", got)
	}
}
