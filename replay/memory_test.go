package replay

import (
	"bufio"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// TestMemoryDoesNotGrowWithTheLog replays a stream that nobody holds: its
// records are made as they are read. What is reachable is looked at again and
// again, while they are read and while they are replayed, and stays far below
// what the records alone would take.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	const (
		records = 200_000
		room    = 4096    // calls in memory; all of them would take 17 MB
		most    = 6 << 20 // bytes: the room, buffers, and 32 kB for each of 49 sorted pieces
	)
	start := reachable()
	var highest uint64
	looks := 0
	look := func() {
		looks++
		if now := reachable(); now > start {
			highest = max(highest, now-start)
		}
	}
	from, to := io.Pipe()
	go func() {
		to.CloseWithError(writeRecords(to, records, look))
	}()
	l := NewLog(Options{
		Policy:   always(policy(t, cooldown(time.Second), "streak=3", "rate=0.5,within=10s,calls=20")),
		Progress: func(done, all int64) { look() },
		Changed:  func(fusebox.Transition) error { return nil },
		room:     room,
	})
	if err := l.Read(from); err != nil {
		t.Fatal(err)
	}
	report, err := l.Replay()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s := report.Summaries[0]; s.Calls != records || s.Opened == 0 {
		t.Fatalf("have %+v, want %d calls, and openings", s, records)
	}
	if wanted := 4 + records>>16; looks != wanted {
		t.Fatalf("memory was looked at %d times, want %d", looks, wanted)
	}
	if highest > most {
		t.Errorf("%d bytes more are reachable than before, want at most %d", highest, most)
	}
}

// writeRecords writes records out of order, some of which are failures in a row,
// and calls look four times on the way.
func writeRecords(to io.Writer, records int, look func()) error {
	out := bufio.NewWriter(to)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var line []byte
	for i := range records {
		e := fusebox.Event{At: at.Add(time.Duration(i^7) * 10 * time.Millisecond), Circuit: "model/a", Elapsed: time.Second}
		if i%1000 < 4 {
			e.Outcome, e.Class = fusebox.Failure, fusebox.ClassServer
		}
		line = append(e.AppendJSON(line[:0]), '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
		if (i+1)%(records/4) == 0 {
			look()
		}
	}
	return out.Flush()
}

// reachable is what lives on the heap, in bytes.
func reachable() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
