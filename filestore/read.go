package filestore

import (
	"fmt"
	"os"
	"time"

	"github.com/fusebox-go/fusebox"
)

// untidyLines is how many lines without a state a reader leaves to others.
const untidyLines = 200

// read returns the state without a lock, and whether a checkpoint would spare
// the next reader work or mistakes.
func (s *Store) read(c *circuit) (state fusebox.State, untidy bool, err error) {
	if state, err = s.peek(c); err != nil {
		return fusebox.State{}, false, err
	}
	j := &c.journal
	untidy = len(j.pending) > untidyLines && light(&j.view) || aheadOf(&j.view, s.now())
	return state, untidy, nil
}

// peek reads what others wrote and returns the state.
func (s *Store) peek(c *circuit) (fusebox.State, error) {
	now := s.now()
	old := readLegacy(s.dir, c.name)
	f, err := openLog(s.path(c.name, logSuffix))
	if err != nil {
		return fusebox.State{}, fmt.Errorf("filestore: %w", err)
	}
	if f == nil {
		if c.journal.file != nil {
			c.forget() // somebody removed it
		}
		c.looked = true
		return c.answer(c.fold(old.events(c.name, c.policy, now), now), &old, now), nil
	}
	defer f.Close()
	if err := c.refresh(f); err != nil {
		return fusebox.State{}, fmt.Errorf("filestore: read %s: %w", f.Name(), err)
	}
	if c.journal.size == 0 {
		return c.answer(c.fold(old.events(c.name, c.policy, now), now), &old, now), nil
	}
	texts, _, err := s.grown(c, f)
	if err != nil {
		return fusebox.State{}, fmt.Errorf("filestore: %w", err)
	}
	if len(texts) != c.late {
		c.late = len(texts)
		c.news.Add(1)
	}
	var late []fusebox.Event
	if c.journal.unended != nil {
		late = append(late, *c.journal.unended)
	}
	for _, text := range texts {
		if e, err := parse(text, c.name); err == nil {
			late = append(late, e)
		}
	}
	return c.answer(c.fold(late, now), &old, now), nil
}

// refresh reads what others appended.
func (c *circuit) refresh(f *os.File) error {
	news, err := c.journal.refresh(f)
	if err != nil {
		c.forget()
		return err
	}
	if news && c.looked {
		c.news.Add(1)
	}
	c.looked = true
	return nil
}

// fold returns the state with more events on top of the log's.
func (c *circuit) fold(more []fusebox.Event, now time.Time) fusebox.State {
	state := c.journal.at(c.policy, now)
	for _, e := range more {
		state = foldAt(c.policy, state, e, now)
	}
	return state
}

// answer makes a recorded state what callers see.
func (c *circuit) answer(state fusebox.State, old *legacy, now time.Time) fusebox.State {
	if !old.blocked.Equal(c.block) {
		c.block = old.blocked
		c.blocks++
		c.news.Add(1)
	}
	old.block(&state, now)
	state.Revision += c.blocks // a block that came or went is news too
	if replaces(c.policy, state.Policy) {
		state.Policy = c.policy // as the next event will record it
	}
	if state.Policy.IsZero() {
		state.Policy = fusebox.DefaultPolicy(fusebox.Kind(c.name))
	}
	state.Through = c.journal.end
	state.Now = now
	return state
}
