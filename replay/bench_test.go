package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// sample is a log of n lines as a busy gateway writes it: nearly sorted, three
// circuits, a hundredth fails.
func sample(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	for i := range n {
		at := start.Add(time.Duration(i)*10*time.Millisecond - time.Duration(r.IntN(50))*time.Millisecond)
		circuit := [...]string{"model/openai/gpt-5", "model/local/llama3.2", "tool/crm/lookup"}[r.IntN(3)]
		e := fusebox.Event{At: at, Circuit: circuit, Elapsed: time.Duration(r.IntN(20_000_000)) * time.Microsecond, Worker: "host-1:4242"}
		if r.IntN(100) == 0 {
			e.Outcome, e.Class, e.Error = fusebox.Failure, fusebox.ClassTimeout, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
		}
		b.Write(e.AppendJSON(nil))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// BenchmarkReplay replays in pieces that do not fit into memory's buffer; its
// rate is per record.
func BenchmarkReplay(b *testing.B) {
	const records = 200_000
	log := sample(records)
	count, err := fusebox.ParseTrip("count=5,of=10,within=60s")
	if err != nil {
		b.Fatal(err)
	}
	p := bare()
	p.Trip = []fusebox.Trip{count}
	p.Cooldown.After = 30 * time.Second
	for _, room := range []int{records / 8, 2 * records} {
		b.Run(fmt.Sprintf("buffer=%d", room), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				l := NewLog(Options{Policy: always(p), room: room})
				if err := l.Read(bytes.NewReader(log)); err != nil {
					b.Fatal(err)
				}
				if _, err := l.Replay(); err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
