package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// attempt is one call of one backend.
type attempt struct {
	*call
	backend *backend
	model   string
	permits *permits // of the visit
	number  int      // of the attempt in its visit, from 1
	started time.Time
	ctx     context.Context
	limits  Timeouts

	verdict    verdict
	reply      *reply        // an answer that the client was not given
	answered   bool          // the client has an answer, or its beginning
	broken     bool          // and that is all it will get: the connection must be aborted
	firstToken time.Duration // until the first content of a stream
}

// reply is an answer of a backend, kept until it is known whether the client
// is to have it.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// maxErrorBody bounds what is read of an error's body.
const maxErrorBody = 64 << 10

// make calls the backend and passes on what the client is to have.
func (a *attempt) make() {
	a.attempts++
	a.limits = a.backend.limits(a.peeked.stream)
	a.ctx = a.dog.watch(a.r.Context(), a.limits.Total, a.started)
	defer a.dog.stop()
	what, limit := a.untilHeaders()
	a.dog.expectSince(what, limit, a.started)
	response, err := a.backend.transport.RoundTrip(a.request())
	if err != nil {
		a.brokeOff(err, false)
		return
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 || response.StatusCode < 200 {
		a.readError(response)
		return
	}
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	if isEventStream(response.Header) {
		a.relayStream(response, *pooled)
	} else if r, complete := a.readWhole(response, *pooled); complete && a.accepts(&r) {
		a.answer(r) // from here, where the stack is not deep: it need not grow
	}
}

// untilHeaders is the limit for the answer's header: of a stream, the first
// token has to come in time too.
func (a *attempt) untilHeaders() (string, time.Duration) {
	if a.limits.FirstToken > 0 && a.limits.FirstToken < a.limits.Headers {
		return theFirstToken, a.limits.FirstToken
	}
	return theHeaders, a.limits.Headers
}

// request is the client's, as the backend gets it.
func (a *attempt) request() *http.Request {
	body := a.peeked.rename(a.body, a.model)
	r := &http.Request{
		Method: a.r.Method, URL: a.backend.target(a.endpoint.path, a.r.URL.RawQuery), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.backend.forwarded(a.r.Header, &a.g.access), Host: a.backend.base.Host, Body: http.NoBody,
	}
	if len(body) > 0 {
		r.ContentLength = int64(len(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return r.WithContext(a.ctx)
}

// repeatable reports whether the same backend may be asked again at once.
func (a *attempt) repeatable() bool {
	return !a.broken && a.verdict.repeatable() && (a.verdict.untouched() || a.endpoint.harmless(a.r.Method))
}

// readError judges an answer that is an error. What the client did wrong is
// the client's to know; the rest may be mended elsewhere.
func (a *attempt) readError(response *http.Response) {
	a.dog.expect(theNextToken, a.backend.streamed.Idle)
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil && a.r.Context().Err() != nil {
		a.brokeOff(err, true)
		return
	}
	a.judgeReply(reply{response.StatusCode, response.Header, body})
}

// brokeOff judges an attempt that ended with err; began tells that an answer had
// begun.
func (a *attempt) brokeOff(err error, began bool) {
	a.verdict = judgeError(a.ctx, a.r.Context(), err, began)
}

// judgeReply decides what becomes of a complete answer that is an error.
func (a *attempt) judgeReply(r reply) {
	a.judge(r.status, r.header, r.body)
	a.reply = &r
	if a.isClients() {
		a.answer(r)
	}
}

// judge sets the verdict on an error. A refusal of the client's own key is the
// client's affair.
func (a *attempt) judge(status int, h http.Header, body []byte) {
	now := time.Now()
	a.verdict = judge(status, h, body, now)
	if a.verdict.result.Outcome == fusebox.Rejected && a.verdict.isNamed(a.route.nextOn) {
		a.verdict.next = true
	}
	if !a.backend.ClientKey {
		return
	}
	switch r := &a.verdict.result; {
	case r.Outcome == fusebox.Failure && r.Class == fusebox.ClassAuth:
		a.verdict.result = fusebox.Result{Outcome: fusebox.Rejected, Err: r.Err}
	case r.Outcome == fusebox.Throttled:
		a.verdict.owner = ofClient
		a.backend.clients.throttle(keyOf(a.r.Header), r.NotBefore, now)
	}
}

// isClients reports whether the error is the client's to know: no other backend
// would answer better.
func (a *attempt) isClients() bool {
	return a.verdict.result.Outcome == fusebox.Rejected && !a.verdict.next
}

// conclude reports the verdict before the client has all of its answer: what
// it asks next must find the circuit as this answer leaves it.
func (a *attempt) conclude() {
	a.settle(a.permits, &a.verdict, a.number)
}

// answer gives the client a complete answer.
func (a *attempt) answer(r reply) {
	a.answered = true
	a.conclude()
	if a.pulse.stop() {
		a.broken = true
		a.send(lateEvent(a.endpoint.format, r))
		return
	}
	a.begin(a.backend, r.status, r.header, int64(len(r.body)))
	a.send(r.body)
}

// clientTime is how long a client may take to read what it is sent, at most
// sendSize.
const clientTime = time.Minute

// sendSize is how much of a large answer a client must read within its time.
const sendSize = 1 << 20

// send writes to the client and reports whether it is still there. Its
// slowness is not the backend's: no limit runs meanwhile.
func (a *attempt) send(b []byte) bool {
	for piece := range slices.Chunk(b, sendSize) {
		a.dog.expectClient(theClient, clientTime, time.Now())
		_, err := a.w.Write(piece)
		if err == nil {
			err = a.control.Flush()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			a.verdict = givenUp(errClientGone)
			a.broken = true
			return false
		}
	}
	return true
}
