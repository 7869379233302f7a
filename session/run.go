package session

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Outcome is what came of one guarded run.
type Outcome struct {
	Ended  Ended
	Result fusebox.Result
	State  fusebox.State // of the circuit, after the report
	Err    error         // why the report is not known to be recorded; nil = it is
}

// Run runs the process under the ticket: it keeps a probe's lease alive
// meanwhile and reports the end.
func (t *Ticket) Run(ctx context.Context, p *Process) Outcome {
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	go t.KeepAlive(renewing)
	o := Outcome{Ended: p.Run()}
	stop()
	fallback := t.policy.Cooldown.After
	if fallback == 0 {
		fallback = time.Hour
	}
	o.Result = o.Ended.Result(time.Now(), fallback)
	// The report must not be lost because the caller was told to end.
	o.State, o.Err = t.Report(context.WithoutCancel(ctx), o.Result, o.Ended.Elapsed)
	return o
}

// Bounds of the wait between two questions to a circuit.
const (
	waitLeast = time.Second
	waitMost  = 30 * time.Second
)

// Wait asks again and again until the circuit lets a process start, or ctx
// ends. It waits as long as the denial says, half a minute at most, because an
// operator may change everything, and a little longer at random, because others
// wait as well. told is called with every denial; nil = nobody.
func (g *Guard) Wait(ctx context.Context, run string, told func(*fusebox.Denial)) (*Ticket, error) {
	for {
		t, err := g.Ask(ctx, run)
		d := fusebox.AsDenial(err)
		if d == nil {
			return t, err
		}
		if told != nil {
			told(d)
		}
		wait := min(max(d.RetryAfter(), waitLeast), waitMost)
		wait += rand.N(wait / 5)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}
