package filestore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Watch implements fusebox.Store. It looks at the files of the circuits that
// this process has looked at, every Config.Poll, and returns when ctx ends or
// the store is closed.
func (s *Store) Watch(ctx context.Context, changed func(circuit string, state fusebox.State)) error {
	told := map[*circuit]uint64{}
	for _, c := range s.looked() {
		told[c] = c.news.Load()
	}
	tick := time.NewTicker(s.poll)
	defer tick.Stop()
	marks := map[*circuit]signature{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
		case <-tick.C:
		}
		for _, c := range s.looked() {
			state, mark, ok := s.glance(c, marks[c])
			if !ok {
				continue
			}
			marks[c] = mark
			if news := c.news.Load(); news != told[c] {
				told[c] = news
				changed(c.name, state)
			}
		}
	}
}

// looked returns the circuits that this process has looked at.
func (s *Store) looked() []*circuit {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*circuit, 0, len(s.circuits))
	for _, c := range s.circuits {
		all = append(all, c)
	}
	return all
}

// glance reads the circuit's state if its files are not as they were at mark,
// and it is not in use.
func (s *Store) glance(c *circuit, mark signature) (state fusebox.State, now signature, ok bool) {
	select {
	case <-c.turn:
	default:
		return state, mark, false
	}
	defer func() { c.turn <- struct{}{} }()
	if now = s.signature(c); now == mark {
		return state, mark, false
	}
	state, err := s.peek(c)
	return state, now, err == nil
}

// signature tells whether any of a circuit's files changed: the log, the one
// before it, and those of an older harness.
type signature [6]struct{ size, modified int64 }

func (s *Store) signature(c *circuit) signature {
	paths := []string{s.path(c.name, logSuffix), filepath.Join(s.dir, c.journal.before.name)}
	for _, stem := range legacyStems(c.name) {
		paths = append(paths, filepath.Join(s.dir, stem+blockedSuffix), filepath.Join(s.dir, stem+failureSuffix))
	}
	var g signature
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			g[i].size, g[i].modified = info.Size()+1, info.ModTime().UnixNano()
		}
	}
	return g
}
