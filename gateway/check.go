package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Checked is what came of asking one backend for its models.
type Checked struct {
	Backend string
	Circuit string // that was asked and told
	Err     error  // nil = it answered; a *fusebox.Denial = it was not asked
	Elapsed time.Duration
}

// Check asks every backend for its list of models, which costs nothing, under
// its circuits as any request. An answer that refuses the request, as of a
// backend that wants the client's own key, is an answer.
func (g *Gateway) Check(ctx context.Context) []Checked {
	checks := make([]Checked, len(g.backends))
	var all sync.WaitGroup
	for i, b := range g.backends {
		all.Go(func() { checks[i] = g.checkOne(ctx, b) })
	}
	all.Wait()
	return checks
}

func (g *Gateway) checkOne(ctx context.Context, b *backend) Checked {
	checked := Checked{Backend: b.Name, Circuit: b.circuitName("")}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, prefix+"/models", nil)
	if err != nil {
		checked.Err = err
		return checked
	}
	if b.Dialect == Anthropic {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	c := &call{g: g, r: r, endpoint: endpoint{dialect: b.Dialect, path: "/models", list: true}, began: time.Now()}
	l := c.list(b)
	checked.Elapsed = time.Since(c.began)
	if l.outcome != fusebox.Rejected {
		checked.Err = l.err
	}
	return checked
}
