package session

import (
	"strings"
	"testing"
	"time"
)

func TestLimitFindsTheTimeInWhatAgentsSay(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 15, 30, 0, 0, berlin) // 14:30 UTC
	utc := func(day, hour, minute, second int) time.Time {
		return time.Date(2026, 11, day, hour, minute, second, 0, time.UTC)
	}
	tests := []struct {
		text string
		want time.Time // zero = a limit without a time
	}{
		{"Claude AI usage limit reached|1796007600", time.Unix(1796007600, 0)},
		{"usage limit reached, retry at 1796007600123 ms", time.UnixMilli(1796007600123)},
		{"usage limit reached, resets at 7pm", utc(29, 18, 0, 0)},
		{"5-hour limit reached ∙ resets 3am", utc(30, 2, 0, 0)},
		{"5-hour limit reached ∙ resets 3pm", utc(30, 14, 0, 0)}, // 3 pm is over: tomorrow's
		{"You've hit your limit · resets 7:30pm (America/New_York)", utc(30, 0, 30, 0)},
		{"usage limit reached until 19:00 UTC", utc(29, 19, 0, 0)},
		{"usage limit reached until 19:00", utc(29, 18, 0, 0)},
		{"weekly limit reached, resets Dec 3 at 9am", time.Date(2026, 12, 3, 8, 0, 0, 0, time.UTC)},
		{"quota exceeded; resets Jan 2, 9:15 am UTC", time.Date(2027, 1, 2, 9, 15, 0, 0, time.UTC)},
		{"rate limit exceeded, try again in 20s", utc(29, 14, 30, 20)},
		{"too many requests: retry after 120 seconds", utc(29, 14, 32, 0)},
		{"You've hit your usage limit. Try again in 2 days 3 hours 15 minutes.", time.Date(2026, 12, 1, 17, 45, 0, 0, time.UTC)},
		{"usage limit reached, try again in 2h15m", utc(29, 16, 45, 0)},
		{"usage limit reached, resets 2026-11-30T07:00:00Z", utc(30, 7, 0, 0)},
		{"usage limit reached, resets 2026-11-30 07:00 UTC", utc(30, 7, 0, 0)},
		{"usage limit reached, resets 2026-11-30 08:00:00 +0100", utc(30, 7, 0, 0)},
		{"usage limit reached, resets 2026-11-30 08:00:00", utc(30, 7, 0, 0)},
		{"at 7pm: usage limit reached", utc(29, 18, 0, 0)},
		{"usage limit reached", time.Time{}},
		{"usage limit reached after 50 messages", time.Time{}},
		{"usage limit reached, resets at 25:00", time.Time{}},
	}
	l, err := NewLimit("default")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			line, until, found := l.Find("working…\n"+tt.text+"\nbye\n", now)
			if !found || line != tt.text {
				t.Fatalf("found %v, line %q", found, line)
			}
			if !until.Equal(tt.want) {
				t.Errorf("until %v, want %v", until.UTC(), tt.want.UTC())
			}
		})
	}
}

func TestLimitIsNotSeenElsewhere(t *testing.T) {
	l, err := NewLimit("default")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "all done at 7pm", "the speed limit is 50", "429 files changed", "limit the output to 10 lines"} {
		if line, _, found := l.Find(text, time.Now()); found {
			t.Errorf("%q: found %q", text, line)
		}
	}
	if _, err := NewLimit("("); err == nil {
		t.Error("a pattern that is none was accepted")
	}
	var none *Limit
	if none.Active() {
		t.Error("no limit is active")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var seen tail
	for range 100 {
		if _, err := seen.Write([]byte(strings.Repeat("x", 1000))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seen.Write([]byte("the end")); err != nil {
		t.Fatal(err)
	}
	got := seen.String()
	if !strings.HasSuffix(got, "the end") || len(got) > tailSize || cap(seen.buf) > 8*tailSize {
		t.Errorf("%d bytes of %d, ending in %q", len(got), cap(seen.buf), got[len(got)-10:])
	}
}

func FuzzResetTime(f *testing.F) {
	f.Add("resets at 7pm (Europe/Berlin)")
	f.Add("in 99999999999 days")
	f.Add("Dec 99 at 99:99pm")
	f.Fuzz(func(t *testing.T, text string) {
		now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
		ResetTime(text, now)
	})
}
