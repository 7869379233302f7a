package gateway_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fusebox-go/fusebox/gateway"
)

// Tests of limits run in a bubble of testing/synctest, whose time is virtual:
// a limit passes at once when all wait for it, and never because the machine is
// slow. A socket would hold that time up, so servers of a bubble are reached
// through pipes.

// inBubble reports whether the caller runs in a bubble: their clocks begin in 2000.
func inBubble() bool { return time.Now().Year() < 2020 }

// start starts a server, on a pipe if it is a bubble's.
func start(s *httptest.Server) {
	if !inBubble() {
		s.Start()
		return
	}
	s.Listener.Close()
	s.Listener = listen()
	s.Start()
	s.Client().Transport.(*http.Transport).DialContext = dial
}

// reaching has a gateway reach the servers of the bubble that it is in, if any.
func reaching(g *gateway.Gateway) *gateway.Gateway {
	if inBubble() {
		g.DialThrough(dial)
	}
	return g
}

// piped is a net.Listener whose connections are pipes.
type piped struct {
	address  string
	arriving chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

var (
	pipes    sync.Map // all that listen, by address
	lastPort atomic.Int64
)

func listen() *piped {
	l := &piped{address: fmt.Sprint("localhost:", lastPort.Add(1)), arriving: make(chan net.Conn), closed: make(chan struct{})}
	pipes.Store(l.address, l)
	return l
}

func dial(ctx context.Context, _, address string) (net.Conn, error) {
	l, ok := pipes.Load(address)
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	here, there := net.Pipe()
	select {
	case l.(*piped).arriving <- there:
		return here, nil
	case <-l.(*piped).closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *piped) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arriving:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error {
	l.close.Do(func() {
		pipes.Delete(l.address)
		close(l.closed)
	})
	return nil
}

func (l *piped) Addr() net.Addr  { return l }
func (l *piped) Network() string { return "pipe" }
func (l *piped) String() string  { return l.address }
