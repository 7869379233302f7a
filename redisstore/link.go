package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

// link is the connection to the server. It is made when it is first needed, so
// that a server that is down keeps no program from starting.
type link struct {
	option rueidis.ClientOption
	ended  chan struct{} // closed by close

	mu      sync.Mutex
	client  rueidis.Client
	dialing *dialing
	closed  bool

	trip atomic.Int64 // nanoseconds in which the last script went there and its answer back
}

// dialing is an attempt to connect that several may wait for.
type dialing struct {
	done chan struct{}
	err  error // once done
}

// get returns the client, connecting if need be.
func (l *link) get(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, fusebox.ErrClosed
	case l.client != nil:
		client := l.client
		l.mu.Unlock()
		return client, nil
	}
	d := l.dialing
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		l.dialing = d
		go l.dial(d)
	}
	l.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.done:
	}
	if d.err != nil {
		return nil, d.err
	}
	return l.get(ctx)
}

func (l *link) dial(d *dialing) {
	client, err := rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing, d.err = nil, err
	if err == nil && l.closed {
		client.Close()
	} else if err == nil {
		l.client = client
	}
	close(d.done)
}

// drop has the next user connect anew: this client's server may not be written
// to any more.
func (l *link) drop(client rueidis.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == client {
		l.client = nil
		client.Close()
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.ended)
	if l.client != nil {
		l.client.Close()
		l.client = nil
	}
}

// run runs a script and returns its answer, and when it was sent and received.
func (l *link) run(ctx context.Context, script *rueidis.Lua, keys, args []string) (answer []rueidis.RedisMessage, sent, received time.Time, err error) {
	client, err := l.get(ctx)
	if err != nil {
		return nil, sent, received, err
	}
	sent = time.Now()
	answer, err = script.Exec(ctx, client, keys, args).ToArray()
	received = time.Now()
	if readOnly(err) {
		l.drop(client)
	}
	if err == nil {
		l.trip.Store(int64(received.Sub(sent)))
	}
	return answer, sent, received, err
}

// readOnly reports whether the server answered that it is a replica now.
func readOnly(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(answer.Error(), "READONLY")
}

// passes reports whether it is worth to try again: the server was not reached,
// or says that it will be ready soon.
func passes(err error) bool {
	if errors.Is(err, fusebox.ErrClosed) || errors.Is(err, errAnswer) || errors.Is(err, errState) {
		return false
	}
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return true
	}
	for _, soon := range []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED", "MOVED", "ASK"} {
		if strings.HasPrefix(answer.Error(), soon) {
			return true
		}
	}
	return false
}

// How long to wait before the next try, at first and at most.
const (
	folding, foldingMax = 250 * time.Microsecond, 4 * time.Millisecond // for somebody else to fold
	away, awayMax       = time.Millisecond, 64 * time.Millisecond      // for the server
)

// pause waits before the next try: twice as long each time, and not in step
// with others.
func pause(ctx context.Context, first, most time.Duration, tries int) {
	wait := min(first<<min(tries, 10), most)
	timer := time.NewTimer(wait/2 + rand.N(wait))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// newToken is unlike any other.
func newToken() string { return strconv.FormatUint(rand.Uint64()|1<<63, 36) }
