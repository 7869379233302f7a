package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// write appends the events under the lock.
func (s *Store) write(ctx context.Context, c *circuit, events []fusebox.Event) (fusebox.State, error) {
	unlock, err := lock(ctx, s.path(c.name, lockSuffix))
	if err != nil {
		return fusebox.State{}, err
	}
	defer unlock()
	f, err := os.OpenFile(s.path(c.name, logSuffix), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fusebox.State{}, fmt.Errorf("filestore: open the log for writing: %w", err)
	}
	defer f.Close()
	now := s.now()
	old := readLegacy(s.dir, c.name)
	state, err := s.record(c, f, &old, events, now)
	if errors.Is(err, errGlued) {
		state, err = s.record(c, f, &old, events, now)
	}
	if err != nil {
		c.forget()
		return fusebox.State{}, fmt.Errorf("filestore: %s: %w", f.Name(), err)
	}
	if lifts(events) {
		if err := old.lift(); err != nil {
			return fusebox.State{}, fmt.Errorf("filestore: lift the block: %w", err)
		}
		old.blocked = time.Time{}
	}
	state = c.answer(state, &old, now)
	if s.full(c) {
		f.Close() // some systems replace no file that is open
		if err := s.rotate(c, now); err != nil {
			c.rotateAt = c.journal.end + s.limit // it grows on
		}
	}
	return state, nil
}

// record reads what others appended, folds the events on top and appends them.
func (s *Store) record(c *circuit, f *os.File, old *legacy, events []fusebox.Event, now time.Time) (fusebox.State, error) {
	if err := c.refresh(f); err != nil {
		return fusebox.State{}, err
	}
	b, err := s.compose(c, f, old, events, now)
	if err != nil {
		return fusebox.State{}, err
	}
	state := b.state()
	return state, s.append(c, f, b)
}

// compose puts together what the write appends.
func (s *Store) compose(c *circuit, f *os.File, old *legacy, events []fusebox.Event, now time.Time) (*batch, error) {
	j := &c.journal
	b := newBatch(j, c.policy, now)
	if j.size == 0 {
		for _, e := range old.events(c.name, c.policy, now) {
			text, err := b.encode(&e)
			if err != nil {
				return nil, err
			}
			b.unstated(text, e)
		}
	} else if err := s.fetch(c, f, b); err != nil {
		return nil, err
	}
	if err := b.adopt(); err != nil {
		return nil, err
	}
	for _, e := range events {
		if err := b.add(e); err != nil {
			return nil, err
		}
	}
	b.finish()
	return b, nil
}

// append writes what b holds, in one write, or nothing.
func (s *Store) append(c *circuit, f *os.File, b *batch) error {
	if len(b.buf) <= len("\n") {
		c.forget() // what was only going to be closed off is still open
		return nil
	}
	n, err := f.Write(b.buf)
	if err != nil {
		if info, statErr := f.Stat(); n > 0 && statErr == nil && info.Size() == b.start+int64(n) {
			err = errors.Join(err, f.Truncate(b.start))
		}
		return err
	}
	if s.sync && b.moved {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == b.end() {
		c.journal.written(info, b)
		return nil
	}
	c.forget() // something slipped in: read all of it next time
	return b.unglue(f, info.Size())
}

// forget has the log read anew.
func (c *circuit) forget() {
	c.journal = journal{circuit: c.name}
	c.news.Add(1)
}

func lifts(events []fusebox.Event) bool {
	return slices.ContainsFunc(events, func(e fusebox.Event) bool {
		return e.Kind == fusebox.KindHold && e.Action == fusebox.ActionLifted
	})
}
