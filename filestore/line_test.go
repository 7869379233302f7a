package filestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// sampleLog is a log with all that may be in one: states, lines of other
// programs, one that slipped in, a torn one, a checkpoint.
func sampleLog(t testing.TB) []byte {
	t.Helper()
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return at }
	path := s.path(bench, logSuffix)
	record := func(events ...fusebox.Event) {
		if _, err := s.Apply(t.Context(), bench, fusebox.Policy{}, events...); err != nil {
			t.Fatal(err)
		}
	}
	append := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	record(failure(at))
	append(`{"at":"2026-11-29T12:00:00Z","outcome":"failure"}` + "\nnot JSON\n" + `{"at":"2026-11-29T13:00:00Z","outcome":"success"}` + "\n{\"at\":")
	record(failure(at), failure(at.Add(time.Hour)), failure(at))

	c, f := s.looked()[0], mustOpen(t, path)
	if err := c.refresh(f); err != nil {
		t.Fatal(err)
	}
	b, err := s.compose(c, f, &legacy{}, []fusebox.Event{failure(at.Add(time.Minute)), failure(at)}, at)
	if err != nil {
		t.Fatal(err)
	}
	append(`{"at":"2026-11-29T11:59:59Z","outcome":"failure","error":"slipped in"}` + "\n")
	if err := s.append(c, f, b); err != nil {
		t.Fatal(err)
	}
	append(`{"at":"2026-11-29T12:00:01Z","outcome":"failure"}` + "\n" + `{"at":"2026-11-29T12:00:02Z","outcome":"failure"}`)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func mustOpen(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// readFrom is a journal that has read text from byte start on.
func readFrom(t *testing.T, text []byte, start int64) *journal {
	t.Helper()
	j := &journal{circuit: bench, end: start, cursor: cursor{stated: start}}
	if err := j.read(bytes.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
	return j
}

// FuzzTail: whatever bytes a log holds, reading its tail gives what reading all
// of it gives, at once or after a part was read, and a good line after them
// counts.
func FuzzTail(f *testing.F) {
	sample := sampleLog(f)
	f.Add(sample)
	f.Add(sample[:len(sample)/2])
	f.Add(sample[len(sample)/3:])
	f.Add(append(bytes.Clone(sample), sample...)) // copied from elsewhere
	f.Add(bytes.ReplaceAll(sample, []byte(`"through":`), []byte(`"through":1`)))
	f.Add(bytes.ReplaceAll(sample, []byte(`"began":`), []byte(`"began":-`)))
	f.Add([]byte("\n\n \n{}\nnull\n[]\n\xff\xfe\x00\n"))
	f.Add([]byte(`{"at":"2026-11-29T12:00:00Z","outcome":"failure"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		start, err := lastStated(bytes.NewReader(text), 0, int64(len(text)), bench)
		if err != nil {
			t.Fatal(err)
		}
		all, tail := readFrom(t, text, 0), readFrom(t, text, start)
		now := time.Date(2026, 11, 29, 12, 30, 0, 0, time.UTC)
		if a, b := spell(all, now), spell(tail, now); a != b {
			t.Fatalf("all of it:\n%s\nits tail, from byte %d:\n%s", a, start, b)
		}
		half := bytes.LastIndexByte(text[:len(text)/2], '\n') + 1
		later := readFrom(t, text[:half], 0)
		if err := later.skip(bytes.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
		if err := later.read(bytes.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
		if a, b := spell(all, now), spell(later, now); a != b {
			t.Fatalf("all of it:\n%s\nfirst %d bytes, then what is new in the rest:\n%s", a, half, b)
		}
		for _, err := range Refold(bench, bytes.NewReader(text), now) {
			_ = err // malformed lines; it must not panic and must end
		}
		longer := append(bytes.Clone(text), "\n"+`{"at":"2026-11-29T12:00:00Z","outcome":"success","worker":"the last one"}`+"\n"...)
		j := readFrom(t, longer, start)
		if n := len(j.pending); n == 0 || j.pending[n-1].event.Worker != "the last one" {
			t.Fatal("a good line after it is lost")
		}
	})
}

// spell is what a journal knows, at one time.
func spell(j *journal, now time.Time) string {
	s := j.at(fusebox.Policy{}, now)
	text, err := json.Marshal(&s)
	return fmt.Sprint(string(text), err, len(j.pending), j.end, j.unended != nil)
}

func TestLines(t *testing.T) {
	huge := strings.Repeat("x", fusebox.MaxLine+10)
	for _, c := range []struct{ name, text, want string }{
		{"none", "", ""},
		{"one", "a\n", "a 0-2"},
		{"no line end", "a\nb", "a 0-2, b 2-3 torn"},
		{"blank ones", "\n\r\n a \r\n", " 0-1,  1-3, a 3-8"},
		{"longer than the buffer", strings.Repeat("y", 70_000) + "\nb\n", strings.Repeat("y", 70_000) + " 0-70001, b 70001-70003"},
		{"too long", huge + "\nb\n", fmt.Sprintf(" 0-%d too long, b %d-%d", len(huge)+1, len(huge)+1, len(huge)+3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for l, err := range lines(strings.NewReader(c.text), 0) {
				if err != nil {
					t.Fatal(err)
				}
				s := fmt.Sprintf("%s %d-%d", l.text, l.start, l.end)
				if !l.ended {
					s += " torn"
				}
				if l.tooLong {
					s += " too long"
				}
				got = append(got, s)
			}
			if joined := strings.Join(got, ", "); joined != c.want {
				t.Errorf("have %.200q\nwant %.200q", joined, c.want)
			}
		})
	}
}

// The digits of the byte at which a line ends are part of the line.
func TestLineEndCountsItself(t *testing.T) {
	for at := int64(0); at < 200_000; at++ {
		end := lineEnd(at, 3)
		if want := at + int64(len(fmt.Sprint(end))) + 3; end != want {
			t.Fatalf("from byte %d: %d, want %d", at, end, want)
		}
	}
}

// TestNewsIsReadFromItsEnd: with a hundred busy processes each saw a hundred
// lines of the others at every look, and took all of them apart for the state
// in the last one.
func TestNewsIsReadFromItsEnd(t *testing.T) {
	dir := t.TempDir()
	us, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	others, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	record := func(s *Store, lines int) fusebox.State {
		t.Helper()
		events := make([]fusebox.Event, lines)
		for i := range events {
			events[i] = fusebox.Event{At: time.Now(), Outcome: fusebox.Success}
		}
		state, err := s.Apply(t.Context(), bench, fusebox.Policy{}, events...)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	look := func() (state fusebox.State) {
		if state, err = us.Apply(t.Context(), bench, fusebox.Policy{}); err != nil {
			t.Fatal(err)
		}
		return state
	}
	record(us, 1)
	const lines = 1000
	want := record(others, lines).Revision
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	have := look().Revision
	runtime.ReadMemStats(&after)
	if have != want {
		t.Errorf("%d events are in the state, want %d", have, want)
	}
	if n := after.Mallocs - before.Mallocs; n > lines {
		t.Errorf("%d allocations for %d lines, of which one matters", n, lines)
	}
}
