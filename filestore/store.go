package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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

var (
	_ fusebox.Store  = (*Store)(nil)
	_ fusebox.Sharer = (*Store)(nil)
)

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

// String is the store's address.
func (s *Store) String() string {
	path := filepath.ToSlash(s.dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
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
