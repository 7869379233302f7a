//go:build unix

package redisstore

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between a store and its server, and does what networks do.
type proxy struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	delay   time.Duration // of every answer
	swallow int           // answers that get lost, with their connection
	cut     bool          // nothing passes any more
	conns   map[net.Conn]bool
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.hangUp()
		serving.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() + "/0" }

func (p *proxy) set(change func(*proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// hangUp closes every connection.
func (p *proxy) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	for _, c := range []net.Conn{client, server} {
		p.set(func(p *proxy) { p.conns[c] = true })
		defer p.set(func(p *proxy) { delete(p.conns, c) })
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(server, client, false); server.Close() })
	both.Go(func() { p.pass(client, server, true); client.Close() })
	both.Wait()
}

// pass passes on what from says.
func (p *proxy) pass(to io.Writer, from io.Reader, answers bool) {
	text := make([]byte, 64<<10)
	for {
		n, err := from.Read(text)
		if err != nil {
			return
		}
		p.mu.Lock()
		delay, cut, lost := p.delay, p.cut, answers && p.swallow > 0
		if lost {
			p.swallow--
		}
		p.mu.Unlock()
		switch {
		case cut:
			continue
		case lost:
			return
		case answers && delay > 0:
			<-time.After(delay)
		}
		if _, err := to.Write(text[:n]); err != nil {
			return
		}
	}
}
