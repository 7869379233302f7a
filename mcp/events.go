package mcp

import (
	"bytes"
	"io"
)

// events reads a stream of server-sent events and passes it on event by event,
// as the bytes that it is, but for those that the client is not to see.
type events struct {
	body  io.ReadCloser
	pass  func(*message) bool                          // looks at a message, and says whether it passes
	ended func(err error, resumable bool) (say []byte) // called once at the end; nil = nothing to do

	// endpoint is told the address that an event of that kind names, see
	// oldStream; nil = nobody is.
	endpoint func(address string)

	in        []byte // read, and not looked at yet
	event     []byte // of the event that has begun, as it came
	address   bool   // its kind is "endpoint": its data is an address
	data      []byte // its data
	out       []byte // what may be passed on
	resumable bool   // an id or a time to come back was given: the answer may come on another stream
	newline   bool   // the last line ended with a bare CR: a LF now belongs to it
	passed    bool   // the last event did
	err       error
}

func newEvents(body io.ReadCloser, pass func(*message) bool, ended func(error, bool) []byte) *events {
	return &events{body: body, pass: pass, ended: ended}
}

func (e *events) Close() error { return e.body.Close() }

// Read returns what may be passed on, as soon as there is some.
func (e *events) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := e.fill(p); err != nil {
		return 0, err
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// fill reads, by way of buffer, until something may be passed on. What there is
// then are whole events, but for the last of a stream that ends within one.
func (e *events) fill(buffer []byte) error {
	for len(e.out) == 0 {
		if e.err != nil {
			return e.err
		}
		n, err := e.body.Read(buffer)
		e.take(buffer[:n])
		if err != nil {
			e.finish(err)
		}
	}
	return nil
}

// finish takes in the stream's end. What the guard says then makes it a clean
// one.
func (e *events) finish(err error) {
	e.err = err
	if e.ended != nil {
		cause := err
		if err == io.EOF {
			cause = nil
		}
		if say := e.ended(cause, e.resumable); say != nil {
			e.out, e.err = append(e.out, say...), io.EOF
			return
		}
	}
	e.out = append(append(e.out, e.event...), e.in...)
}

// take looks at what was read, line by line.
func (e *events) take(chunk []byte) {
	if e.newline && len(chunk) > 0 {
		e.newline = false
		if chunk[0] == '\n' {
			e.glue('\n')
			chunk = chunk[1:]
		}
	}
	rest := chunk
	if len(e.in) > 0 {
		e.in = append(e.in, chunk...)
		rest = e.in
	}
	for {
		end := bytes.IndexAny(rest, "\r\n")
		if end < 0 {
			break
		}
		next := end + 1
		if rest[end] == '\r' {
			if next == len(rest) {
				e.newline = true
			} else if rest[next] == '\n' {
				next++
			}
		}
		e.line(rest[:end], rest[:next])
		rest = rest[next:]
	}
	e.in = append(e.in[:0], rest...)
}

// glue adds a byte to the end of the last line, wherever that is now.
func (e *events) glue(b byte) {
	switch {
	case len(e.event) > 0:
		e.event = append(e.event, b)
	case e.passed:
		e.out = append(e.out, b)
	}
}

// line takes in one line; raw is the line with its end.
func (e *events) line(line, raw []byte) {
	if len(line) > 0 && line[0] == ':' && len(e.event) == 0 { // keeps a connection alive
		e.out, e.passed = append(e.out, raw...), true
		return
	}
	e.event = append(e.event, raw...)
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case len(line) == 0:
		e.dispatch()
	case string(field) == "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	case string(field) == "event":
		e.address = string(value) == "endpoint"
	case string(field) == "id", string(field) == "retry":
		e.resumable = true
	}
}

// dispatch takes in an event that is complete.
func (e *events) dispatch() {
	if e.address && e.endpoint != nil {
		e.endpoint(string(e.data))
	}
	m, ok := readMessage(e.data)
	e.passed = !ok || e.pass(&m)
	switch {
	case e.passed && len(e.out) == 0:
		e.out, e.event = e.event, e.out
	case e.passed:
		e.out = append(e.out, e.event...)
	}
	e.event, e.data, e.address = e.event[:0], e.data[:0], false
}

// event makes an event of a line of JSON.
func event(line []byte) []byte {
	return append(append([]byte("event: message\ndata: "), bytes.TrimRight(line, "\n")...), "\n\n"...)
}
