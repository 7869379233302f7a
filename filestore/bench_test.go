package filestore

import (
	"os"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// fill makes a log of nearly the size at which it is rotated.
func fill(b *testing.B, dir string) {
	b.Helper()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	var events []fusebox.Event
	for range 200 {
		events = append(events, fusebox.Event{At: time.Now(), Outcome: fusebox.Success, Elapsed: time.Millisecond, Worker: "host-1"})
	}
	for {
		state, err := s.Apply(b.Context(), bench, fusebox.Policy{}, events...)
		if err != nil {
			b.Fatal(err)
		}
		if state.Through > DefaultRotate-300_000 {
			return
		}
	}
}

// BenchmarkFresh is what a one-shot command does: open, lock, read the tail,
// fold one event, append, close.
func BenchmarkFresh(b *testing.B) {
	for _, full := range []bool{false, true} {
		name := "empty"
		if full {
			name = "full"
		}
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			if full {
				fill(b, dir)
			}
			for b.Loop() {
				s, err := Open(Config{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Apply(b.Context(), bench, fusebox.Policy{}, fusebox.Event{At: time.Now(), Outcome: fusebox.Success}); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkFreshRead is what `status` does for one circuit.
func BenchmarkFreshRead(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir)
	for b.Loop() {
		s, err := Open(Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Apply(b.Context(), bench, fusebox.Policy{}); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkAppend is one event of a long-lived process: by a small state, and
// by one with two thousand marks.
func BenchmarkAppend(b *testing.B) {
	heavy := fusebox.DefaultPolicy("tool")
	heavy.Trip = []fusebox.Trip{fusebox.Count(1000, time.Hour)}
	heavy.Distinct = false
	for _, c := range []struct {
		name   string
		policy fusebox.Policy
		event  fusebox.Event
	}{
		{"light", fusebox.Policy{}, fusebox.Event{Outcome: fusebox.Success}},
		{"heavy", heavy, fusebox.Event{Outcome: fusebox.Failure}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			at := time.Now().Add(-1000 * time.Hour) // old marks never trip
			bytes := int64(0)
			for range 2000 {
				if c.name == "heavy" {
					at = at.Add(4 * time.Second)
					c.event.At = at
					if _, err := s.Apply(b.Context(), bench, c.policy, c.event); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				at = at.Add(4 * time.Second)
				c.event.At = at
				if _, err := s.Apply(b.Context(), bench, c.policy, c.event); err != nil {
					b.Fatal(err)
				}
			}
			entries, _ := os.ReadDir(s.dir)
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					bytes += info.Size()
				}
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "file-B/op")
		})
	}
}

// BenchmarkWatch is one look at a circuit that did not change.
func BenchmarkWatch(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Apply(b.Context(), bench, fusebox.Policy{}, fusebox.Event{At: time.Now(), Outcome: fusebox.Success}); err != nil {
		b.Fatal(err)
	}
	c := s.looked()[0]
	_, mark, _ := s.glance(c, signature{})
	for b.Loop() {
		s.glance(c, mark)
	}
}
