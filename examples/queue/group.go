package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/fusebox-go/fusebox"
)

// group is what became of the jobs for one provider.
type group struct {
	mu     sync.Mutex
	jobs   int          // that there are
	done   map[int]bool // by document: a queue may deliver a job twice
	denied int
	failed int
	all    chan struct{} // closed when all are done
}

func newGroup(jobs int) *group {
	return &group{jobs: jobs, done: map[int]bool{}, all: make(chan struct{})}
}

// ended hears how an attempt at a job ended.
func (g *group) ended(j job, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case fusebox.AsDenial(err) != nil:
		g.denied++
	case err != nil:
		g.failed++
	case !g.done[j.Document]:
		g.done[j.Document] = true
		if len(g.done) == g.jobs {
			close(g.all)
		}
	}
}

// wait waits until all jobs are done.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.all:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		return fmt.Errorf("%d of %d jobs done: %w", len(g.done), g.jobs, ctx.Err())
	}
}

// counts returns how often a job was denied, and how often its call failed.
func (g *group) counts() (denied, failed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied, g.failed
}
