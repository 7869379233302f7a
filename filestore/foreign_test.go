package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// appendText appends as another program does: without lock or state.
func appendText(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

const foreignFailure = `{"at":"2026-11-29T12:00:00Z","outcome":"failure"}`

func TestForeignLinesAreFoldedByTheStoredPolicy(t *testing.T) {
	s := open(t, Config{})
	p := fusebox.DefaultPolicy("tool")
	p.Trip = []fusebox.Trip{fusebox.Streak(2)}
	if _, err := s.Apply(t.Context(), bench, p, failure(time.Date(2026, 11, 29, 11, 0, 0, 0, time.UTC))); err != nil {
		t.Fatal(err)
	}
	appendText(t, s.path(bench, logSuffix), foreignFailure+"\n")
	if state := apply(t, s, bench); state.Phase != fusebox.Open {
		t.Errorf("phase %v", state.Phase)
	}
	apply(t, s, bench, fusebox.Event{Kind: fusebox.KindDenied, At: time.Now(), Reason: fusebox.ReasonOpen})
	transitions := 0
	for e := range s.Evidence(t.Context(), bench, time.Time{}) {
		if e.Kind == fusebox.KindTransition {
			transitions++
		}
	}
	if transitions != 1 {
		t.Errorf("%d transitions recorded, want the one that the foreign line caused", transitions)
	}
	refoldAll(t, s.dir)
}

func TestTornLineIsClosedOff(t *testing.T) {
	for _, c := range []struct {
		name, torn string
		streak     int
	}{
		{"half a record", `{"at":"2026-11-29T12:00:00Z","outc`, 1},
		{"a record without its line end", foreignFailure, 2},
		{"any bytes", "\x00\xff{{{", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{})
			appendText(t, s.path(bench, logSuffix), c.torn)
			if state := apply(t, s, bench); state.Streak != c.streak-1 {
				t.Errorf("a reader sees a streak of %d", state.Streak)
			}
			if state := apply(t, s, bench, failure(time.Now())); state.Streak != c.streak {
				t.Errorf("streak %d, want %d", state.Streak, c.streak)
			}
			text, err := os.ReadFile(s.path(bench, logSuffix))
			if err != nil || !strings.HasPrefix(string(text), c.torn+"\n") {
				t.Errorf("the log is %q, %v", text, err)
			}
			if state := apply(t, open(t, Config{Dir: s.dir}), bench); state.Streak != c.streak {
				t.Errorf("a fresh reader sees a streak of %d", state.Streak)
			}
			refoldAll(t, s.dir)
		})
	}
}

// I11: what is no record stops nothing, and is counted and reported with its place.
func TestI11MalformedLinesAreSkippedAndReported(t *testing.T) {
	s := open(t, Config{})
	path := s.path(bench, logSuffix)
	apply(t, s, bench, failure(time.Now()))
	appendText(t, path, strings.Join([]string{"not JSON", `{"outcome":"failure"}`, `{"at":"yesterday","outcome":"failure"}`,
		`{"at":"2026-11-29T12:00:00Z","outcome":"sideways"}`, `{"at":"2026-11-29T12:00:00Z","outcome":"failure","circuit":"tool/other"}`,
		"", `{"at":"2026-11-29T12:00:00Z","kind":"novelty"}`, foreignFailure, ""}, "\n"))
	if state := apply(t, s, bench); state.Streak != 2 {
		t.Errorf("streak %d, want 2", state.Streak)
	}
	report, err := s.Inspect(t.Context(), bench)
	if err != nil || report.Records != 3 || report.Malformed != 5 || len(report.Problems) != 5 {
		t.Fatalf("report %+v, %v", report, err)
	}
	var bad *LineError
	if !errors.As(report.Problems[0], &bad) || bad.Line != 2 || bad.File != path || !errors.Is(bad, fusebox.ErrMalformed) {
		t.Errorf("the first problem is %v", report.Problems[0])
	}
	text, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(text[bad.Offset:]), "not JSON\n") {
		t.Errorf("at byte %d there is %.20q", bad.Offset, text[bad.Offset:])
	}
}

// One write, one line in it without a state, and another program's line right
// before it: only that one is folded after the write's state.
func TestLineThatSlipsInBeforeAMixedWrite(t *testing.T) {
	s := open(t, Config{})
	apply(t, s, bench, failure(time.Now()))
	c, f := s.looked()[0], mustOpen(t, s.path(bench, logSuffix))
	now := s.now()
	b, err := s.compose(c, f, &legacy{}, []fusebox.Event{failure(now), failure(now.Add(time.Hour)), failure(now)}, now)
	if err != nil {
		t.Fatal(err)
	}
	appendText(t, f.Name(), foreignFailure+"\n")
	if err := s.append(c, f, b); err != nil {
		t.Fatal(err)
	}
	fresh := open(t, Config{Dir: s.dir})
	apply(t, fresh, bench)
	if waiting := fresh.looked()[0].journal.pending; len(waiting) != 1 || waiting[0].event.Class != "" {
		t.Errorf("%d lines wait for a state, want the foreign one: %+v", len(waiting), waiting)
	}
	apply(t, fresh, bench, failure(now))
	refoldAll(t, s.dir)
}

// A program keeps the log open and goes on writing to it after it was rotated.
func TestLinesInARotatedFileCount(t *testing.T) {
	s := open(t, Config{Rotate: 3000})
	p := fusebox.DefaultPolicy("tool")
	p.Trip = []fusebox.Trip{fusebox.Streak(1000)}
	report := func() fusebox.State {
		state, err := s.Apply(t.Context(), bench, p, failure(time.Now()))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	report()
	old, err := os.OpenFile(s.path(bench, logSuffix), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	want := 1
	for {
		state := report()
		want++
		if rotated, _ := s.rotated(bench); len(rotated) == 1 {
			if state.Streak != want {
				t.Fatalf("streak %d, want %d", state.Streak, want)
			}
			break
		}
	}
	s = open(t, Config{Dir: s.dir}) // which rotates no more
	reader := open(t, Config{Dir: s.dir})
	for range 2 {
		if _, err := old.WriteString(foreignFailure + "\nnot JSON\n" + foreignFailure + "\n" + foreignFailure[:10]); err != nil {
			t.Fatal(err)
		}
		want += 2
		if state := apply(t, reader, bench); state.Streak != want {
			t.Errorf("a reader sees a streak of %d, want %d", state.Streak, want)
		}
		if got := failuresOf(t, s); got != want {
			t.Errorf("%d failures read back, want %d", got, want)
		}
		want++
		if state := report(); state.Streak != want {
			t.Errorf("the next writer has a streak of %d, want %d", state.Streak, want)
		}
		if state := apply(t, open(t, Config{Dir: s.dir}), bench); state.Streak != want {
			t.Errorf("a fresh reader sees a streak of %d, want %d", state.Streak, want)
		}
		if _, err := old.WriteString("\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got := failuresOf(t, s); got != want {
		t.Errorf("%d failures read back, want %d", got, want)
	}
	if report, err := s.Inspect(t.Context(), bench); err != nil || report.Malformed != 4 {
		t.Errorf("%d malformed lines, want 4, %v", report.Malformed, err)
	}
	refoldAll(t, s.dir)
}

// failuresOf counts the failures that the log tells of.
func failuresOf(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	for e, err := range s.Evidence(t.Context(), bench, time.Time{}) {
		if err == nil && e.Kind == fusebox.KindEvidence {
			n++
		}
	}
	return n
}

func TestOldLogsAreKeptForAWhile(t *testing.T) {
	s := open(t, Config{Rotate: 2000, Keep: 24 * time.Hour})
	grow := func(files int) {
		t.Helper()
		for range 100 {
			if rotated, _ := s.rotated(bench); len(rotated) >= files {
				return
			}
			apply(t, s, bench, failure(time.Now()))
		}
		t.Fatal("it is not rotated")
	}
	grow(2)
	rotated, _ := s.rotated(bench)
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, rotated[0].name), old, old); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		apply(t, s, bench, failure(time.Now()))
	}
	left, _ := s.rotated(bench)
	if left[0].number != 2 || len(left) < 2 {
		t.Errorf("left: %+v, want all but the first", left)
	}
}

// A log that was replaced or cut short is read anew, even where it has grown
// past what was read of the old one.
func TestReplacedLogIsReadAnew(t *testing.T) {
	s := open(t, Config{})
	path := s.path(bench, logSuffix)
	apply(t, s, bench, failure(time.Now()), failure(time.Now()))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	one := strings.Replace(foreignFailure, "}", `,"class":"auth"}`, 1) + "\n"
	many := strings.Repeat(strings.Replace(one, `failure","class":"auth"`, `success"               `, 1), 100) // lines as long as the one
	for _, text := range []string{"", one, many, string(good)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want, got := apply(t, open(t, Config{Dir: s.dir}), bench), apply(t, s, bench)
		want.Now, got.Now = time.Time{}, time.Time{}
		if fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", got) {
			t.Errorf("log of %d bytes:\n%+v\na fresh reader has\n%+v", len(text), got, want)
		}
	}
}

// A state with many marks is written now and then; what lies between is folded.
func TestHeavyStatesAreNotWrittenWithEveryLine(t *testing.T) {
	s := open(t, Config{})
	p := fusebox.DefaultPolicy("tool")
	p.Trip, p.Distinct = []fusebox.Trip{fusebox.Count(1000, time.Hour)}, false
	at := time.Now().Add(-30 * time.Minute)
	for i := range 999 {
		state, err := s.Apply(t.Context(), bench, p, failure(at.Add(time.Duration(i)*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		if state.Streak != i+1 {
			t.Fatalf("streak %d after %d", state.Streak, i+1)
		}
	}
	info, err := os.Stat(s.path(bench, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if perLine := info.Size() / 999; perLine > 1000 {
		t.Errorf("%d bytes a line", perLine)
	}
	fresh := open(t, Config{Dir: s.dir})
	if state := apply(t, fresh, bench); state.CountAt(state.Now) != 999 {
		t.Errorf("a fresh reader counts %d", state.CountAt(state.Now))
	}
	if state := apply(t, fresh, bench, failure(time.Now())); state.Phase != fusebox.Open || state.Failures != 1000 {
		t.Errorf("%v after %d failures", state.Phase, state.Failures)
	}
	refoldAll(t, s.dir)
}

// Nobody writes, others append: a reader leaves a checkpoint for the next one.
func TestLongTailIsPutInOrderByAReader(t *testing.T) {
	s := open(t, Config{})
	path := s.path(bench, logSuffix)
	appendText(t, path, strings.Repeat(`{"at":"2026-11-29T12:00:00Z","outcome":"success"}`+"\n", untidyLines+1))
	want := apply(t, s, bench).Votes
	fresh := open(t, Config{Dir: s.dir})
	if got := apply(t, fresh, bench).Votes; got != want || want != untidyLines+1 {
		t.Errorf("votes %d, then %d", want, got)
	}
	if c := fresh.looked()[0]; len(c.journal.pending) != 0 {
		t.Errorf("%d lines still wait for a state", len(c.journal.pending))
	}
	refoldAll(t, s.dir)
}

func TestWatchTellsOfAnOlderBlock(t *testing.T) {
	s := open(t, Config{Poll: time.Millisecond})
	before := apply(t, s, claude)
	told := make(chan fusebox.State, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(t.Context(), func(_ string, state fusebox.State) { told <- state })
	}()
	leave(t, s, "claude.blocked-until", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), 0)
	if state := <-told; state.Hold == nil || state.Revision <= before.Revision {
		t.Errorf("hold %+v, revision %d after %d", state.Hold, state.Revision, before.Revision)
	}
	s.Close()
	if err := <-ended; !errors.Is(err, fusebox.ErrClosed) {
		t.Errorf("watch returned %v", err)
	}
}
