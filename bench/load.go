package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// request is a request of a model API, ready to be written.
func request(host, body string) []byte {
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
}

const (
	chat         = `{"model":"m","messages":[{"role":"user","content":"Say two hundred words about circuits."}]}`
	chatStreamed = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Say fifty words about circuits."}]}`
)

// client is one connection that sends the same request again and again. It does
// as little as it can: it shares the cores with what it measures.
type client struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	broken  int // answers that were cut or no answers
}

func dial(address, body string) (*client, error) {
	c := &client{address: address, request: request(address, body)}
	return c, c.connect()
}

func (c *client) connect() (err error) {
	c.conn, err = net.DialTimeout("tcp", c.address, 5*time.Second)
	c.in = bufio.NewReaderSize(c.conn, 16<<10)
	return err
}

// ask sends the request and reads the answer. first is when its body began. A
// broken answer is counted and answers false; the next one has a new connection.
func (c *client) ask() (first time.Time, ok bool, err error) {
	if first, err = c.exchange(); err == nil {
		return first, true, nil
	}
	c.broken++
	c.conn.Close()
	return first, false, c.connect()
}

func (c *client) exchange() (first time.Time, err error) {
	c.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.conn.Write(c.request); err != nil {
		return first, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return first, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return first, fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	length, err := c.header()
	if err != nil {
		return first, err
	}
	if _, err := c.in.Peek(1); err != nil {
		return first, err
	}
	first = time.Now()
	if length >= 0 {
		_, err := c.in.Discard(length)
		return first, err
	}
	return first, c.chunks()
}

// header reads the header and returns the body's length, -1 if it is chunked.
func (c *client) header() (length int, err error) {
	length = -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		if strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, err
			}
		}
	}
}

// chunks reads a chunked body.
func (c *client) chunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := c.in.Discard(int(n) + len("\r\n")); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
}

// load is what became of a number of requests.
type load struct {
	answered, broken int
	elapsed          time.Duration
	first, whole     spread // milliseconds
}

// saturate keeps so many connections busy for d.
func saturate(address, body string, connections int, d time.Duration) (load, error) {
	start := time.Now()
	return drive(address, body, connections, func() (time.Time, bool) { return time.Now(), time.Since(start) < d })
}

// paced sends n requests, rate a second, whether or not earlier ones were
// answered. Their times count from when they were due.
func paced(address, body string, connections, n, rate int) (load, error) {
	due := make(chan time.Time, n)
	go func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for range n {
			due <- <-ticker.C
		}
		close(due)
	}()
	return drive(address, body, connections, func() (time.Time, bool) { at, ok := <-due; return at, ok })
}

// drive makes requests on so many connections for as long as next says when
// one is due.
func drive(address, body string, connections int, next func() (due time.Time, ok bool)) (l load, err error) {
	clients := make([]*client, connections)
	for i := range clients {
		if clients[i], err = dial(address, body); err != nil {
			return l, err
		}
		defer func() { clients[i].conn.Close() }()
	}
	errs := make([]error, connections)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for i, c := range clients {
		wg.Go(func() {
			var first, whole spread
			for errs[i] == nil {
				due, more := next()
				if !more {
					break
				}
				begun, ok, err := c.ask()
				if errs[i] = err; ok {
					first.add(milliseconds(begun.Sub(due)))
					whole.add(milliseconds(time.Since(due)))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			l.first, l.whole = append(l.first, first...), append(l.whole, whole...)
			l.broken += c.broken
		})
	}
	wg.Wait()
	l.elapsed, l.answered = time.Since(start), len(l.whole)
	return l, errors.Join(errs...)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
