package fusebox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func zz(b *testing.B, trip fusebox.Trip, do bool) {
	broken := errors.New("broken")
	ctx := context.Background()
	var c *fusebox.Circuit
	for i := range b.N {
		if i%990 == 0 {
			box := newBox(b, fusebox.Config{Policy: onePolicy(func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{trip} })})
			c = circuit(b, box, "model/a")
		}
		if do {
			fusebox.Do(ctx, c, func(context.Context) (int, error) { return 1, broken })
			continue
		}
		p, err := c.Allow(ctx)
		if err != nil {
			b.Fatal(err)
		}
		p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: broken})
	}
}
func BenchmarkZCount(b *testing.B)  { zz(b, fusebox.Count(1000, time.Minute), false) }
func BenchmarkZStreak(b *testing.B) { zz(b, fusebox.Streak(1000), false) }
func BenchmarkZDo(b *testing.B)     { zz(b, fusebox.Streak(1000), true) }
