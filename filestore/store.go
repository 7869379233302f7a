package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Built in for what a Config leaves out.
const (
	DefaultRotate = 8 << 20
	DefaultKeep   = 720 * time.Hour
	DefaultPoll   = 200 * time.Millisecond
)

// Config says where the store lies. Only Dir is needed.
type Config struct {
	Dir             string        // made with mode 0700 where it does not exist
	Rotate          int64         // bytes after which a log is begun anew; 0 = DefaultRotate
	Keep            time.Duration // how long old logs are kept; 0 = DefaultKeep
	Poll            time.Duration // how often Watch looks for what others wrote; 0 = DefaultPoll
	SyncTransitions bool          // flush transitions to the disk: a power cut loses none. A crash of the process never does
}

// Store is a fusebox.Store in a directory. Make one with [Open]. Its methods
// are safe for concurrent use, by any number of processes on one machine.
type Store struct {
	dir   string
	limit int64 // of a log, before it is rotated
	keep  time.Duration
	poll  time.Duration
	sync  bool
	now   func() time.Time // wall clock, UTC

	mu       sync.Mutex
	circuits map[string]*circuit // that this process has looked at
	closed   chan struct{}       // by Close
}

var _ fusebox.Store = (*Store)(nil)

// maxCircuits bounds what is remembered of logs, not the logs.
const maxCircuits = 100_000

// circuit is a log that this process has looked at.
type circuit struct {
	name string
	turn chan struct{} // holds one token: who takes it may use the rest

	journal       journal
	looked        bool           // the journal is of a file that was read, or was not there
	news          atomic.Uint64  // grows with every change by somebody else
	late          int            // lines last seen in a rotated file that are not in the log yet
	rotateAt      int64          // where rotating failed: not before this size again
	block         time.Time      // by an older file, as last seen
	blocks        uint64         // how often that changed
	given, policy fusebox.Policy // the policy last given, and as it reads back from the log
}

// Open opens the store in a directory. It refuses network file systems: their
// locks and appends do not hold between machines.
func Open(c Config) (*Store, error) {
	if c.Dir == "" {
		return nil, errors.New("filestore: want a directory, have none")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filestore: make the directory: %w", err)
	}
	if name := networkFileSystem(dir); name != "" {
		return nil, fmt.Errorf("filestore: %s is on a network file system (%s), where locks and appends of several machines "+
			"do not hold; use a local directory, or a Redis store to share circuits between machines", dir, name)
	}
	s := &Store{
		dir: dir, limit: c.Rotate, keep: c.Keep, poll: c.Poll, sync: c.SyncTransitions,
		now:      func() time.Time { return time.Now().Round(0).UTC() },
		circuits: map[string]*circuit{}, closed: make(chan struct{}),
	}
	if s.limit <= 0 {
		s.limit = DefaultRotate
	}
	if s.keep <= 0 {
		s.keep = DefaultKeep
	}
	if s.poll <= 0 {
		s.poll = DefaultPoll
	}
	return s, nil
}

// Close implements fusebox.Store. Files are open only during calls, so there is
// nothing to lose.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.closed)
	}
	return nil
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// Apply implements fusebox.Store. It waits for the circuit's lock until ctx
// ends; without events it waits for nothing. When it fails, the error says
// what could not be done and where.
func (s *Store) Apply(ctx context.Context, name string, p fusebox.Policy, events ...fusebox.Event) (fusebox.State, error) {
	c, err := s.circuit(name)
	if err != nil {
		return fusebox.State{}, err
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return fusebox.State{}, fmt.Errorf("filestore: wait for %s: %w", c.name, ctx.Err())
	}
	defer func() { c.turn <- struct{}{} }()
	if err := ctx.Err(); err != nil {
		return fusebox.State{}, fmt.Errorf("filestore: %s: %w", c.name, err)
	}
	if err := c.recordable(p); err != nil {
		return fusebox.State{}, err
	}
	if len(events) > 0 {
		return s.write(ctx, c, events)
	}
	state, untidy, err := s.read(c)
	if err != nil || !untidy {
		return state, err
	}
	// Nobody may write for a while, so that a reader has to put it in order. A
	// reader that may not write is as good as before.
	brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if tidy, err := s.write(brief, c, nil); err == nil {
		return tidy, nil
	}
	return state, nil
}

// recordable makes c.policy what p reads back as, so that what is folded is
// what is recorded.
func (c *circuit) recordable(p fusebox.Policy) error {
	if p.IsZero() {
		c.given, c.policy = p, p
		return nil
	}
	if !c.policy.IsZero() && p.Equal(c.given) && p.Loaded.Equal(c.given.Loaded) {
		return nil
	}
	var read fusebox.Policy
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		return fmt.Errorf("filestore: %s: %w", c.name, err)
	}
	c.given, c.policy = p, read
	return nil
}

// circuit returns what is remembered of the named circuit.
func (s *Store) circuit(name string) (*circuit, error) {
	name, err := fusebox.CanonicalName(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil, fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
	}
	if c := s.circuits[name]; c != nil {
		return c, nil
	}
	for other := range s.circuits {
		if len(s.circuits) < maxCircuits {
			break
		}
		delete(s.circuits, other)
	}
	c := &circuit{name: name, turn: make(chan struct{}, 1), journal: journal{circuit: name}}
	c.turn <- struct{}{}
	s.circuits[name] = c
	return c, nil
}

// path returns the path of one of a circuit's files.
func (s *Store) path(circuit, suffix string) string {
	return filepath.Join(s.dir, fileName(circuit)+suffix)
}

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
