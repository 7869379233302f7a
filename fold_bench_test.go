package fusebox_test

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// benchmarkFold folds the event, one second after the other, in place as the
// owner of a state does.
func benchmarkFold(b *testing.B, p fusebox.Policy, e fusebox.Event) {
	s := fusebox.State{Policy: p}
	b.ReportAllocs()
	for b.Loop() {
		e.At = e.At.Add(time.Second)
		s.Apply(&e)
	}
	if s.Phase != fusebox.Closed {
		b.Fatal("it opened")
	}
}

func BenchmarkFoldSuccess(b *testing.B) {
	benchmarkFold(b, fusebox.DefaultPolicy("model"), worked("12:00", 0))
}

func BenchmarkFoldFailureStreak(b *testing.B) {
	s := fusebox.State{Policy: rules(fusebox.Streak(100_000))}
	e := failed("12:00", 0)
	b.ReportAllocs()
	for b.Loop() {
		e.At = e.At.Add(time.Second)
		s.Apply(&e)
		s.Streak = 0 // so that it never opens
	}
}

func BenchmarkFoldFailureCount(b *testing.B) {
	benchmarkFold(b, rules(fusebox.Count(5, 3*time.Second)), failed("12:00", 0))
}

func BenchmarkFoldFailureOf(b *testing.B) {
	benchmarkFold(b, rules(fusebox.Count(5, 3*time.Second).Of(10)), failed("12:00", 0))
}

func BenchmarkFoldRate(b *testing.B) {
	benchmarkFold(b, rules(fusebox.Rate(0.5, time.Minute, 100)), failed("12:00", 0))
}

var evidenceLine = []byte(`{"at":"2026-11-29T12:09:00.123456789Z","circuit":"model/openai/gpt-5","outcome":"failure","class":"timeout","ms":5012.25,"attempts":2,"worker":"web-3","run":"r-8812","error":"context deadline exceeded","v":3}`)

func BenchmarkParseEvent(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(evidenceLine)))
	for b.Loop() {
		if _, err := fusebox.ParseEvent(evidenceLine); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e, err := fusebox.ParseEvent(evidenceLine)
	if err != nil {
		b.Fatal(err)
	}
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = e.AppendJSON(line[:0])
	}
}
