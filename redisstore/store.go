package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Built in for what a Config leaves out.
const (
	DefaultPrefix    = "fusebox:"
	DefaultKeep      = 720 * time.Hour
	DefaultHeartbeat = 750 * time.Millisecond
)

const (
	patience    = 2 * time.Second        // of one Apply
	lockTime    = 100 * time.Millisecond // for folding once; longer where the server is far away
	lockTimeMax = time.Second
	maxPending  = 10_000 // batches that wait to be folded, a circuit
	maxEvidence = 10_000 // records kept of a circuit, about
)

// Config says which server keeps the circuits. Only URL is needed.
type Config struct {
	// URL is redis://user:password@host:6379/0, or rediss:// for TLS; the
	// number is the database's. Parameters follow a question mark:
	//
	//	addr=HOST:PORT      a further server of a cluster, or a further sentinel
	//	sentinel=NAME       the hosts are sentinels, and NAME is the server they watch
	//	sentinel_auth=true  the user and password are the sentinels' too
	//	prefix=TEXT         of every key; default fusebox:
	//	ca=FILE             of rediss: who signed the server's certificate
	//	cert=FILE, key=FILE of rediss: this client's own
	//	server_name=NAME    of rediss: the name in the server's certificate
	//
	// That a server is part of a cluster is found out.
	URL string

	Keep      time.Duration // how long a circuit that nobody uses is kept; 0 = DefaultKeep
	Heartbeat time.Duration // how often Watch looks for what it was not told, ±20 %; 0 = DefaultHeartbeat
}

// Store is a fusebox.Store on a Redis or Valkey server. Make one with [Open].
// Its methods are safe for concurrent use, by any number of processes.
type Store struct {
	address   string
	prefix    string
	keep      time.Duration
	heartbeat time.Duration
	link      link
	clock     clock
	skew      atomic.Int64 // nanoseconds by which a test sets the server's clock

	mu   sync.Mutex
	used map[string]time.Time // circuits that Watch looks at, and when they were used last
}

var (
	_ fusebox.Store  = (*Store)(nil)
	_ fusebox.Sharer = (*Store)(nil)
)

// Open returns the store at an address. It does not wait for the server, which
// may be down: the first use connects. An error says what is wrong with c, and
// never holds a password.
func Open(c Config) (*Store, error) {
	a, err := parseAddress(c.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{address: a.text, prefix: a.prefix, keep: c.Keep, heartbeat: c.Heartbeat, used: map[string]time.Time{}}
	s.link.option = a.option
	s.link.ended = make(chan struct{})
	if s.prefix == "" {
		s.prefix = DefaultPrefix
	}
	if strings.ContainsAny(s.prefix, "{}") {
		return nil, fmt.Errorf("redisstore: %s: want a prefix without braces, have %q", a.text, s.prefix)
	}
	if s.keep <= 0 {
		s.keep = DefaultKeep
	}
	if s.heartbeat <= 0 {
		s.heartbeat = DefaultHeartbeat
	}
	return s, nil
}

// String is the store's address, without user and password.
func (s *Store) String() string {
	if s.prefix == DefaultPrefix {
		return s.address
	}
	return s.address + "?prefix=" + strings.ReplaceAll(url.QueryEscape(s.prefix), "%3A", ":")
}

// quorum is that of policies that say nothing of it: the failures of one host do
// not open a circuit for all others.
const quorum = 2

// Quorum tells a fusebox.Box the quorum of policies that say nothing of it.
func (s *Store) Quorum() int { return quorum }

// quorate completes a policy that says nothing of its quorum.
func quorate(p fusebox.Policy) fusebox.Policy {
	if p.Quorum == 0 && !p.IsZero() {
		p.Quorum = quorum
	}
	return p
}

// lockFor is how long a lock lasts: for the answer that grants it, for the fold,
// and for the commit.
func (s *Store) lockFor() time.Duration {
	return min(max(lockTime, 3*time.Duration(s.link.trip.Load())), lockTimeMax)
}

// Close implements fusebox.Store.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

// Apply implements fusebox.Store. It waits two seconds at most, or until ctx
// ends: for the server, and for somebody to fold the events. When it fails, the
// events may still have arrived; those that bear an ID may be sent again.
func (s *Store) Apply(ctx context.Context, circuit string, p fusebox.Policy, events ...fusebox.Event) (fusebox.State, error) {
	name, err := fusebox.CanonicalName(circuit)
	if err != nil {
		return fusebox.State{}, err
	}
	state, err := s.apply(ctx, name, quorate(p), events)
	if err != nil {
		return fusebox.State{}, fmt.Errorf("redisstore: %s: %s: %w", s.address, name, err)
	}
	s.mu.Lock()
	s.used[name] = time.Now()
	s.mu.Unlock()
	return state, nil
}

func (s *Store) apply(ctx context.Context, name string, p fusebox.Policy, events []fusebox.Event) (state fusebox.State, err error) {
	r, err := s.report(name, p, events)
	if err != nil {
		return state, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for r.next() {
		if err := r.send(ctx); err != nil {
			return state, err
		}
	}
	if p.IsZero() && r.state.Policy.IsZero() {
		p = quorate(fusebox.DefaultPolicy(fusebox.Kind(name)))
	}
	// An event that changes nothing settles by which policy it is read.
	state = fusebox.Fold(p, r.state, fusebox.Event{Kind: fusebox.KindStart, Circuit: name})
	state.Now = s.now()
	return state, nil
}

// Why a batch was not folded in time, where no answer tells it.
var (
	errSilent  = errors.New("the server does not answer")
	errWaiting = errors.New("events of others that wait before it are not folded")
)

// send tries until the batch is folded.
func (r *report) send(ctx context.Context) error {
	failed := errSilent
	for tries := 0; ctx.Err() == nil; tries++ {
		done, err := r.try(ctx)
		switch {
		case done, err != nil && !passes(err):
			return err
		case err != nil:
			if ctx.Err() == nil {
				failed = err
			}
			pause(ctx, away, awayMax, tries)
		default:
			failed = errWaiting
			pause(ctx, folding, foldingMax, tries)
		}
	}
	return fmt.Errorf("%w (%w)", failed, ctx.Err())
}

// now is the server's time.
func (s *Store) now() time.Time { return s.onServer(s.clock.now()) }

func (s *Store) onServer(t time.Time) time.Time { return t.Add(time.Duration(s.skew.Load())) }

// report is one Apply on its way.
type report struct {
	store *Store
	keys  keys
	name  string
	token string   // the lock's
	from  string   // the reporter
	given string   // the policy
	rest  []string // number and event in turn, of what is not sent yet
	begun bool     // a batch was

	seenFor time.Duration

	batch    []string // the part of rest that is on its way
	epoch    string
	position int64 // of the batch, among all that ever came in
	state    fusebox.State
}

// maxBatch bounds the events that are folded without a look at the time.
const maxBatch = 100

// next takes up the next batch, and reports whether there was one. A report
// without events is one batch without events.
func (r *report) next() bool {
	if r.begun && len(r.rest) == 0 {
		return false
	}
	r.begun = true
	n := min(len(r.rest), 2*maxBatch)
	r.batch, r.rest = r.rest[:n], r.rest[n:]
	if r.position = nowhere; n == 0 {
		r.position = anywhere
	}
	return true
}

// How long it is remembered up to where a reporter's events have arrived.
const (
	seenTime    = 24 * time.Hour // of those that are sent again for as long as it takes
	seenBriefly = time.Minute    // of one Apply that repeats them by itself
)

// Positions that are no batch's.
const (
	anywhere = -1      // nothing is waited for
	nowhere  = 1 << 52 // it is not known yet
)

func (s *Store) report(name string, p fusebox.Policy, events []fusebox.Event) (*report, error) {
	r := &report{store: s, keys: s.keys(name), name: name, token: newToken(), seenFor: seenTime}
	if len(events) == 0 {
		return r, nil
	}
	if !p.IsZero() {
		policy, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		r.given = string(policy)
	}
	own := events[0].ID.From == ""
	if r.from = events[0].ID.From; own {
		r.from, r.seenFor = r.token, seenBriefly
	}
	for i := range events {
		e := events[i]
		if own {
			e.ID = fusebox.EventID{From: r.from, N: uint64(i) + 1}
		} else if e.ID.From != r.from {
			return nil, fmt.Errorf("events of several reporters in one report: %q and %q", r.from, e.ID.From)
		}
		e.Circuit = ""
		line := e.AppendJSON(nil)
		if _, err := fusebox.ParseEvent(line); err != nil {
			return nil, err
		}
		r.rest = append(r.rest, strconv.FormatUint(e.ID.N, 10), string(line))
	}
	return r, nil
}
