package fusebox_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// recorded is the state as a log keeps it: what is not recorded is gone.
func recorded(t *testing.T, s *fusebox.State) *fusebox.State {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read fusebox.State
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return &read
}

// TestManyMarksCountAsFewDo: with many marks a window's count is searched for,
// in times that are kept in order beside the marks. A state that was just read
// has none and looks at each mark. Both give one count at any time, however the
// events' times jump, and through all that forgets or moves marks.
func TestManyMarksCountAsFewDo(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		jitter time.Duration // between the order of reports and that of their times
		trips  []fusebox.Trip
	}{
		{"in order", 0, []fusebox.Trip{fusebox.Count(150, time.Minute)}},
		{"parallel workers", 3 * time.Second, []fusebox.Trip{fusebox.Count(150, time.Minute)}},
		{"clocks apart", 90 * time.Second, []fusebox.Trip{fusebox.Count(150, time.Minute)}},
		{"of the last calls", 3 * time.Second, []fusebox.Trip{fusebox.Count(150, 2*time.Minute).Of(160)}},
		{"several rules", 3 * time.Second, []fusebox.Trip{
			fusebox.Count(150, time.Minute), fusebox.Count(100, 20*time.Second), fusebox.Count(120, time.Minute).Of(400)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			p := rules(c.trips...)
			applied := fusebox.State{Policy: p, Seed: 1}
			folded := applied
			at, opened, most := start, 0, 0
			for i := range 3000 {
				gap, works := 900, r.IntN(10) == 0 // milliseconds, at most: the count stays just below what opens it
				if i%1000 > 850 {
					gap, works = 300, false // and then it opens
				}
				at = at.Add(time.Duration(r.IntN(gap)) * time.Millisecond)
				e := fusebox.Event{At: at.Add(-time.Duration(r.Int64N(int64(c.jitter) + 1))), Outcome: fusebox.Failure, Class: fusebox.ClassServer}
				if works {
					e.Outcome, e.Class = fusebox.Success, ""
				}
				if applied.Phase == fusebox.Open {
					e = fusebox.Event{Kind: fusebox.KindReset, At: at}
				}
				before := folded
				folded = fusebox.Fold(fusebox.Policy{}, folded, e)
				again := fusebox.Fold(fusebox.Policy{}, before, e) // of a state that a fold came from
				applied.Apply(&e)
				if applied.Phase == fusebox.Open {
					opened++
				}
				most = max(most, len(applied.Marks))
				if i%7 > 0 {
					continue
				}
				read := recorded(t, &applied)
				for _, when := range []time.Time{at, at.Add(-30 * time.Second), at.Add(30 * time.Second), at.Add(time.Hour), e.At} {
					want := read.CountAt(when)
					for name, s := range map[string]*fusebox.State{"applied": &applied, "folded": &folded, "folded again": &again} {
						if have := s.CountAt(when); have != want || s.Phase != read.Phase {
							t.Fatalf("event %d, %s: %d count at %v, %v; want %d, %v", i, name, have, when, s.Phase, want, read.Phase)
						}
					}
				}
			}
			if most < 200 || opened == 0 {
				t.Errorf("at most %d marks, opened %d times: that shows too little", most, opened)
			}
		})
	}
}
