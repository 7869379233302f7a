//go:build unix

package redisstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// One report of a failure, with so many workers reporting to one circuit at once.
func BenchmarkReport(b *testing.B) {
	for _, workers := range []int{1, 8, 100} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := startServer(b)
			p := policy()
			p.Trip = []fusebox.Trip{fusebox.Count(50, time.Hour).Of(100)}
			p.Cooldown = fusebox.Cooldown{}
			var stores []*Store
			for range workers {
				store := openStore(b, s.url())
				if _, err := store.Apply(b.Context(), name, p); err != nil {
					b.Fatal(err)
				}
				stores = append(stores, store)
			}
			took := make([][]time.Duration, workers)
			b.ResetTimer()
			var all sync.WaitGroup
			for i, store := range stores {
				all.Go(func() {
					for range (b.N + workers - 1) / workers {
						begin := time.Now()
						if _, err := store.Apply(b.Context(), name, p, fusebox.Event{At: begin, Outcome: fusebox.Failure}); err != nil {
							b.Error(err)
						}
						took[i] = append(took[i], time.Since(begin))
					}
				})
			}
			all.Wait()
			b.StopTimer()
			sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds()), "µs-p99")
		})
	}
}
