package filestore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// Circuits implements fusebox.Store. A circuit is known by its log or by a
// block or counter of an older harness; of the latter, a bare NAME is listed as
// session/NAME.
func (s *Store) Circuits(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := s.names()
		for _, name := range names {
			if ctx.Err() != nil {
				err = ctx.Err()
				break
			}
			if !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (s *Store) names() ([]string, error) {
	if s.isClosed() {
		return nil, fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		if stem, ok := strings.CutSuffix(e.Name(), logSuffix); ok {
			if name, ok := circuitName(stem); ok {
				found[name] = true
			} else if strings.Contains(stem, hashMark) && !isRotated(e.Name()) {
				if name := nameInside(filepath.Join(s.dir, e.Name()), stem); name != "" {
					found[name] = true
				}
			}
			continue
		}
		for _, suffix := range []string{failureSuffix, blockedSuffix} {
			stem, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok {
				continue
			}
			if name, ok := circuitName(stem); ok {
				if fusebox.Kind(name) == "" {
					name = "session/" + name
				}
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// nameInside returns the circuit that the first good line of a log names, where
// the file's own name is a hash of it.
func nameInside(path, stem string) string {
	f, err := openLog(path)
	if err != nil || f == nil {
		return ""
	}
	defer f.Close()
	for l, err := range lines(f, 0) {
		if err != nil {
			return ""
		}
		if e, err := fusebox.ParseEvent(l.text); err == nil && fileName(e.Circuit) == stem {
			return e.Circuit
		}
	}
	return ""
}
