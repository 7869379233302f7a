package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

// page is how many records or keys are asked for at once.
const page = 500

// Circuits implements fusebox.Store. It looks through all keys of the database:
// give the store a database of its own where there are millions of others.
func (s *Store) Circuits(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := s.names(ctx)
		if err != nil {
			yield("", fmt.Errorf("redisstore: %s: list circuits: %w", s.address, err))
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (s *Store) names(ctx context.Context) ([]string, error) {
	client, err := s.link.get(ctx)
	if err != nil {
		return nil, err
	}
	pattern := escapeGlob.Replace(s.prefix) + "{*" + stateSuffix
	found := map[string]bool{}
	for _, node := range client.Nodes() { // of a cluster; replicas repeat what others said
		for cursor := uint64(0); ; {
			answer, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(page).Build()).AsScanEntry()
			if err != nil {
				return nil, err
			}
			for _, key := range answer.Elements {
				if name, ok := s.circuitOf(key); ok {
					found[name] = true
				}
			}
			if cursor = answer.Cursor; cursor == 0 {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// Evidence implements fusebox.Store. About the newest 10,000 records of a
// circuit are kept.
func (s *Store) Evidence(ctx context.Context, circuit string, since time.Time) iter.Seq2[fusebox.Event, error] {
	return func(yield func(fusebox.Event, error) bool) {
		name, err := fusebox.CanonicalName(circuit)
		if err != nil {
			yield(fusebox.Event{}, err)
			return
		}
		from := "-"
		for {
			entries, err := s.entries(ctx, s.keys(name).of("log"), from)
			if err != nil {
				yield(fusebox.Event{}, fmt.Errorf("redisstore: %s: %s: %w", s.address, name, err))
				return
			}
			for _, entry := range entries {
				e, err := fusebox.ParseEvent([]byte(entry.FieldValues["e"]))
				if err != nil {
					err = fmt.Errorf("redisstore: %s: %s: record %s: %w", s.address, name, entry.ID, err)
				} else if e.At.Before(since) {
					continue
				}
				e.Circuit = name
				if !yield(e, err) {
					return
				}
			}
			if len(entries) < page {
				return
			}
			from = "(" + entries[len(entries)-1].ID
		}
	}
}

func (s *Store) entries(ctx context.Context, key, from string) ([]rueidis.XRangeEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tries := 0; ; tries++ {
		client, err := s.link.get(ctx)
		if err == nil {
			var entries []rueidis.XRangeEntry
			entries, err = client.Do(ctx, client.B().Xrange().Key(key).Start(from).End("+").Count(page).Build()).AsXRange()
			if err == nil {
				return entries, nil
			}
		}
		if !passes(err) || ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		pause(ctx, away, awayMax, tries)
	}
}
