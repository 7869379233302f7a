package mcp

import (
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// oldStream is a client's stream in the HTTP transport of 2024-11-05: all that
// the server says comes on the response to one GET, and the client posts to an
// address that the first event names. What the guard says goes on that stream,
// too.
type oldStream struct {
	address string // that the client posts to
	table   *table

	mu sync.Mutex
	w  *io.PipeWriter
}

// say writes whole events to the client.
func (s *oldStream) say(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.w.Write(events)
	return err
}

// oldStreams holds the streams by the address that their client posts to. The
// zero value is empty.
type oldStreams struct {
	mu   sync.Mutex
	byAt map[string]*oldStream
}

// at returns the stream of that address, or nil.
func (o *oldStreams) at(address string) *oldStream {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byAt[address]
}

func (o *oldStreams) add(s *oldStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byAt == nil {
		o.byAt = map[string]*oldStream{}
	}
	o.byAt[s.address] = s
}

func (o *oldStreams) remove(s *oldStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byAt[s.address] == s {
		delete(o.byAt, s.address)
	}
}

// addressOf is the part of a URL that tells one stream's posts from another's.
func addressOf(u *url.URL) string { return u.Path + "?" + u.RawQuery }

// listenOld carries a stream that may be one of the old transport: its first
// event tells.
func (f *front) listenOld(r *http.Request, resp *http.Response) *http.Response {
	out, w := io.Pipe()
	s := &oldStream{table: newTable(), w: w}
	e := newEvents(resp.Body, func(m *message) bool {
		pass, _ := s.table.fromServer(m)
		return pass
	}, nil)
	e.endpoint = func(address string) {
		if u, err := r.URL.Parse(address); err == nil && s.address == "" {
			s.address = addressOf(u)
			f.old.add(s)
		}
	}
	go func() {
		buffer := make([]byte, 4<<10)
		err := e.fill(buffer)
		for ; err == nil; err = e.fill(buffer) {
			if s.say(e.out) != nil {
				break
			}
			e.out = e.out[:0]
		}
		w.CloseWithError(err)
		e.Close()
		f.old.remove(s)
		for _, q := range s.table.drain() {
			q.finish(undecided("its stream ended"))
		}
	}()
	resp.Body = closing(out, func() { e.Close() }) // which ends the reading
	return resp
}

// postOld carries what a client of the old transport posts.
func (f *front) postOld(r *http.Request, m *message, s *oldStream) (*http.Response, error) {
	c, isCall := readCall(m)
	switch {
	case !m.isRequest():
		if !s.table.fromClient(m) {
			return accepted(r), nil
		}
		return f.send(r)
	case !isCall || !m.is(methodCall):
		return f.send(r)
	}
	call, denial := f.g.admit(c, origin{run: r.Header.Get(RunHeader), session: sessionRun(s.address)})
	if denial != nil {
		s.say(event(deniedAnswer(c.id, denial)))
		return accepted(r), nil
	}
	q := &request{id: c.id, call: call, limit: f.g.deadline(c.tool)}
	sent := make(chan struct{})
	defer close(sent)
	q.expired = func() {
		if !s.table.claim(q) {
			return
		}
		v := overdue(q.limit)
		q.finish(v)
		s.say(event(q.failed(v)))
		<-sent // nothing can be cancelled before
		f.tell(r, cancelNotice(q.id, fusebox.ErrorText(v.tool.Err)))
	}
	s.table.add(q)
	return f.sendOld(r, q, s)
}

// sendOld sends a call, whose answer comes on the stream.
func (f *front) sendOld(r *http.Request, q *request, s *oldStream) (*http.Response, error) {
	resp, err := f.transport.RoundTrip(r)
	if err == nil && resp.StatusCode < 300 || !s.table.remove(q) {
		return resp, err
	}
	if err == nil {
		q.finish(judgeStatus(resp, time.Now()))
		return resp, nil
	}
	res := fusebox.Classify(r.Context(), err)
	v := verdict{res, res}
	q.finish(v)
	if res.Outcome == fusebox.Canceled {
		return nil, err
	}
	s.say(event(q.failed(v)))
	return accepted(r), nil
}

// accepted is what the old transport says to a message.
func accepted(r *http.Request) *http.Response {
	return respond(r, http.StatusAccepted, "text/plain", []byte("Accepted"))
}
