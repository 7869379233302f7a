package main

import (
	"testing"
	"time"
)

func TestRoughly(t *testing.T) {
	tests := map[time.Duration]string{
		0:                                   "0s",
		12345 * time.Microsecond:            "12ms",
		3400 * time.Millisecond:             "3s",
		30 * time.Minute:                    "30m",
		90 * time.Second:                    "1m30s",
		time.Hour:                           "1h",
		3*time.Hour + 30*time.Minute + 1e9:  "3h30m",
		10 * time.Second:                    "10s",
		5 * 24 * time.Hour:                  "5d",
		47*time.Hour + 59*time.Minute + 3e9: "47h59m",
	}
	for d, want := range tests {
		if got := roughly(d); got != want {
			t.Errorf("%v: want %s, have %s", d, want, got)
		}
	}
}

// Names and errors come from outside: they must not move the cursor.
func TestPrintableTakesControlCharactersOut(t *testing.T) {
	if got, want := printable("a\x1b[2Jb\nc\u009bd"), "a [2Jb c d"; got != want {
		t.Errorf("want %q, have %q", want, got)
	}
}

func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 11, 29, 22, 30, 0, 0, time.Local)
	tests := map[string]time.Time{
		"2026-11-30T07:00:00Z": time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC),
		"23:00":                time.Date(2026, 11, 29, 23, 0, 0, 0, time.Local),
		"07:00":                time.Date(2026, 11, 30, 7, 0, 0, 0, time.Local),
		"22:30":                time.Date(2026, 11, 30, 22, 30, 0, 0, time.Local),
	}
	for s, want := range tests {
		if got, err := parseMoment(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: want %v, have %v, %v", s, want, got, err)
		}
	}
	for _, s := range []string{"", "soon", "25:00", "7"} {
		if _, err := parseMoment(s, now); err == nil {
			t.Errorf("%q: want an error", s)
		}
	}
}
