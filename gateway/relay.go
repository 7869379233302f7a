package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

const (
	readSize = 32 << 10 // of the buffers that answers are read into
	maxWhole = 1 << 20  // of an answer that is held back until it is complete
	maxEvent = 4 << 20  // of an event that is understood, and of a preamble that is held back
)

// endGrace is how long a stream may stay silent after its answer is complete.
const endGrace = 2 * time.Second

var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// readWhole reads an answer that is not streamed. It is held back until it is
// complete, so that a break is mended elsewhere; one that is very large is passed
// on from there as it comes. The answer may be in buf.
func (a *attempt) readWhole(response *http.Response, buf []byte) (r reply, complete bool) {
	n := 0
	var err error
	most := maxWhole
	if a.holds() {
		most = maxHeld
	}
	for err == nil && n < most {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		a.dog.expect(theNextToken, a.limits.Idle)
		var got int
		got, err = response.Body.Read(buf[n:])
		n += got
	}
	switch {
	case err == io.EOF:
		return reply{response.StatusCode, response.Header, buf[:n]}, true
	case err != nil:
		a.brokeOff(err, true)
	case a.holds():
		a.tooLarge()
	default:
		a.passWhole(response, buf, n)
	}
	return reply{}, false
}

// accepts judges a complete answer, and reports whether it is one: an error may
// hide behind a good status.
func (a *attempt) accepts(r *reply) bool {
	if !a.endpoint.call {
		return true
	}
	walk := members{b: r.body}
	for {
		key, value, ok := walk.next()
		if !ok {
			break
		}
		if string(key) == "error" && !isNull(value) {
			a.judgeReply(reply{r.status, r.header, bytes.Clone(r.body)}) // it outlives the buffer
			return false
		}
	}
	if !walk.closed {
		a.verdict = failure(fusebox.ClassServer, r.status, fmt.Errorf("%d: the answer is not JSON", r.status))
	}
	return walk.closed
}

// passWhole passes a large answer on; its first n bytes are in buf.
func (a *attempt) passWhole(response *http.Response, buf []byte, n int) {
	a.answered = true
	a.permits.model.Answering()
	a.begin(a.backend, response.StatusCode, response.Header, response.ContentLength)
	for {
		if !a.send(buf[:n]) {
			return
		}
		var err error
		a.dog.expect(theNextToken, a.limits.Idle)
		n, err = response.Body.Read(buf)
		if err == nil {
			continue
		}
		if a.send(buf[:n]) && err != io.EOF {
			a.brokeOff(err, true)
			a.broken = true
		}
		return
	}
}

// relayStream passes on a stream of server-sent events. Nothing is sent before
// the first content, of a route with whole answers nothing before the end, so
// that until then another backend can take over; after it, only whole events
// are, so that a break can be told of cleanly.
func (a *attempt) relayStream(response *http.Response, buf []byte) {
	s := stream{attempt: a, response: response, buf: buf, held: a.holds(),
		reading: reading{format: a.endpoint.format, answers: a.peeked.answers}}
	for s.err == nil {
		s.fill()
		if !s.pass() {
			return
		}
	}
	s.finish()
}

// stream is an answer on its way.
type stream struct {
	*attempt
	response *http.Response
	reading  reading
	events   events
	buf      []byte // [:n] was read and not sent
	n        int
	err      error // why nothing more comes
	held     bool  // nothing is sent before the answer is complete
	begun    bool  // its content has begun to come

	heard time.Time // when something last came that was more than a comment
	news  bool      // it did since the last look
}

// fill reads more.
func (s *stream) fill() {
	if s.news { // as of now: what was spent on the client is not the backend's silence
		s.heard, s.news = time.Now(), false
		s.permits.renew(s.heard)
	}
	if s.n == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	switch {
	case !s.begun:
		s.dog.expectSince(theFirstToken, s.limits.FirstToken, s.started)
	case s.reading.complete() && s.reading.prompt():
		s.dog.expectSince(theNextToken, min(endGrace, s.limits.Idle), s.heard)
	default:
		s.dog.expectSince(theNextToken, s.limits.Idle, s.heard)
	}
	var got int
	got, s.err = s.response.Body.Read(s.buf[s.n:])
	s.n += got
}

// pass reads the events that have come and sends them on. It reports whether
// the stream goes on.
func (s *stream) pass() bool {
	for {
		from := s.events.begin
		e, ok := s.events.next(s.buf[:s.n])
		if !ok {
			break
		}
		s.news = s.news || e.data != nil
		if !s.take(e, from) {
			return false
		}
	}
	if s.events.begin < s.n && s.buf[s.events.begin] != ':' {
		s.news = true
	}
	if s.n-s.events.begin >= maxEvent || !s.begun && s.n >= maxEvent {
		s.open() // too large to be understood, or to be a preamble
		s.events.skip(s.n)
	}
	if s.held && s.n >= maxHeld {
		s.tooLarge()
		return false
	}
	if !s.answered {
		return true
	}
	return s.flush(s.events.begin)
}

// take takes in one event, which begins at from. It reports whether the stream
// goes on.
func (s *stream) take(e event, from int) bool {
	switch s.reading.read(e) {
	case signContent:
		s.open()
	case signEnd:
		s.conclude()
		s.release()
	case signError:
		return s.fault(e)
	case signMalformed:
		s.fail(failure(fusebox.ClassStream, 0, errors.New("an event of the stream is not JSON")), from)
		return false
	}
	return true
}

// open notes the first content, and begins the client's answer with it unless
// that is held back.
func (s *stream) open() {
	if !s.begun {
		s.begun = true
		s.firstToken = time.Since(s.started)
		s.permits.model.Answering()
	}
	if s.held || s.answered {
		return
	}
	s.answered = true
	s.call.firstToken = time.Since(s.call.began)
	s.begin(s.backend, s.response.StatusCode, s.response.Header, -1)
}

// release lets go of an answer that was held back.
func (s *stream) release() {
	s.held = false
	s.open()
}

// fault handles an error inside the stream. Before the client has any content
// it is like an error in place of the stream, unless it is the client's to know;
// after it, the client is told by the backend's own event.
func (s *stream) fault(e event) bool {
	s.judge(0, s.response.Header, e.data)
	if s.answered || s.isClients() {
		s.broken = s.begun
		s.release()
		s.flush(s.events.begin)
	} else {
		s.reply = s.errorReply(e.data)
	}
	return false
}

// errorReply is an error inside the stream as an answer of its own.
func (s *stream) errorReply(data []byte) *reply {
	r := &refusal{status: s.verdict.status, message: readFault(data).text}
	if r.status == 0 {
		r.status = http.StatusBadRequest
	}
	if len(s.verdict.codes) > 0 {
		r.code = s.verdict.codes[0]
	}
	return &reply{r.status, http.Header{"Content-Type": {"application/json"}}, r.body(s.endpoint.dialect)}
}

// finish ends the stream when nothing more comes.
func (s *stream) finish() {
	from := s.events.begin
	if e, ok := s.events.last(s.buf[:s.n]); ok && s.err == io.EOF && !s.take(e, from) {
		return
	}
	v := failure(fusebox.ClassStream, 0, errEarlyEnd)
	if s.err != io.EOF {
		v = judgeError(s.ctx, s.r.Context(), s.err, true)
	}
	if !s.reading.complete() || !s.isEnd(&v) {
		s.fail(v, from)
		return
	}
	s.release()
	s.flush(s.events.begin)
}

var errEarlyEnd = errors.New("the stream ended before its answer was complete")

// isEnd reports whether a complete answer's stream may end so: by its end, by
// silence, or by a break; not by the client's leaving or the total limit.
func (s *stream) isEnd(v *verdict) bool {
	return s.err == io.EOF || s.reading.format != formatOther && !errors.Is(v.result.Err, errClientGone)
}

// fail ends a stream that broke. What was not sent of it, from an offset on,
// is dropped. A client that has a part of the answer is told so.
func (s *stream) fail(v verdict, from int) {
	s.verdict = v
	if !s.answered {
		return
	}
	if !errors.Is(v.result.Err, errClientGone) && s.flush(from) {
		message := "The answer broke off: " + fusebox.ErrorText(v.result.Err) + ". What came before is not the whole answer."
		s.send(errorEvent(s.reading.format, message, s.reading.sequence+1))
	}
	s.broken = true
}

// flush sends the first n bytes of the buffer and takes them out of it.
func (s *stream) flush(n int) bool {
	if !s.send(s.buf[:n]) {
		return false
	}
	s.n = copy(s.buf, s.buf[n:s.n])
	s.events.drop(n)
	return true
}
