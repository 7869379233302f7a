package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/internal/retryafter"
)

// exchange is one tool call over HTTP: a POST and the response to it, which may
// be one JSON message, or a stream that also carries other messages. In the
// era with sessions the stream may end early, and the answer come on another.
type exchange struct {
	f       *front
	r       *http.Request
	client  context.Context // ends when the client leaves
	cancel  context.CancelFunc
	session string
	table   *table
	request *request
}

// carry sends the call and returns the response to it.
func (x *exchange) carry() (*http.Response, error) {
	resp, err := x.f.transport.RoundTrip(x.r)
	if err != nil {
		defer x.cancel()
		return x.lost(err)
	}
	switch {
	case resp.StatusCode >= 300:
		x.settle(judgeStatus(resp, time.Now()))
		if resp.StatusCode == http.StatusNotFound {
			x.f.sessions.end(x.session)
		}
		resp.Body = closing(resp.Body, x.cancel)
		return resp, nil
	case resp.StatusCode == http.StatusAccepted:
		x.wait()
		resp.Body = closing(resp.Body, x.cancel)
		return resp, nil
	case isStream(resp):
		events := newEvents(resp.Body, x.see, x.end)
		resp.Body = closing(events, func() { x.left(events.resumable) })
		return resp, nil
	}
	return x.whole(resp)
}

// settle reports what the call came to, if nobody has.
func (x *exchange) settle(v verdict) {
	if x.table.remove(x.request) {
		x.request.finish(v)
	}
}

// lost answers a call that did not reach the server, or whose response broke.
func (x *exchange) lost(err error) (*http.Response, error) {
	if x.table.isClaimed(x.request) {
		return x.respond(overdue(x.request.limit)), nil
	}
	res := fusebox.Classify(x.client, err)
	v := verdict{res, res}
	x.settle(v)
	if res.Outcome == fusebox.Canceled {
		return nil, err
	}
	return x.respond(v), nil
}

// respond is the guard's answer in the server's place.
func (x *exchange) respond(v verdict) *http.Response {
	return respond(x.r, http.StatusOK, "application/json", x.answer(v))
}

func (x *exchange) answer(v verdict) []byte { return x.request.failed(v) }

// whole reads an answer that is one message.
func (x *exchange) whole(resp *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		defer x.cancel()
		resp.Body.Close()
		return x.lost(err)
	}
	if len(body) > maxBody { // an answer it is; what it says is not read
		x.settle(verdict{})
		resp.Body = closing(readCloser{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}, x.cancel)
		return resp, nil
	}
	resp.Body.Close()
	defer x.cancel()
	if m, ok := readMessage(body); ok {
		x.see(&m)
	}
	if x.table.isClaimed(x.request) {
		return x.respond(overdue(x.request.limit)), nil
	}
	x.settle(undecided("its response holds no answer"))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// see takes in a message of the response, and reports whether it is to be
// passed on.
func (x *exchange) see(m *message) bool {
	pass, _ := x.table.fromServer(m)
	return pass
}

// end takes in the end of the response's stream, and returns what is still to
// be said on it.
func (x *exchange) end(err error, resumable bool) []byte {
	if x.table.isClaimed(x.request) {
		return event(x.answer(overdue(x.request.limit)))
	}
	if x.client.Err() != nil {
		return nil // see left
	}
	if resumable {
		x.wait()
		return nil
	}
	if err == nil {
		err = errors.New("the server ended its response without an answer")
	}
	v := broken(fusebox.ClassStream, err)
	if !x.table.remove(x.request) {
		return nil // it was answered
	}
	x.request.finish(v)
	return event(x.answer(v))
}

// keepTime is how long the answer to a call may take to come on another stream.
const keepTime = 10 * time.Minute

// left takes in that the response is no longer read. A client in a session may
// come back for the rest.
func (x *exchange) left(resumable bool) {
	x.cancel()
	if resumable {
		x.wait()
		return
	}
	x.settle(undecided("the client left"))
}

// wait leaves the call open for an answer on another stream, which only a
// session has.
func (x *exchange) wait() {
	if x.session != "" {
		x.table.keep(x.request, keepTime)
		return
	}
	x.settle(undecided("the server ended its response early"))
}

// expire ends a call that has run for too long.
func (x *exchange) expire() {
	v := overdue(x.request.limit)
	if x.table.isKept(x.request) { // there is nothing to answer on
		x.settle(v)
		return
	}
	if !x.table.claim(x.request) {
		return
	}
	x.request.finish(v)
	x.cancel() // in the era without sessions this is how a call is cancelled
	if x.session != "" {
		x.f.tell(x.r, cancelNotice(x.request.id, fusebox.ErrorText(v.tool.Err)))
	}
}

// tell sends the server a message of the guard's own, as one that came with a
// request.
func (f *front) tell(as *http.Request, message []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	r := as.Clone(ctx)
	setBody(r, message)
	resp, err := f.transport.RoundTrip(r)
	if err != nil {
		f.g.log.Debug("not sent", "error", err)
		return
	}
	resp.Body.Close()
}

// judgeStatus is the verdict of a response that is no answer.
func judgeStatus(resp *http.Response, now time.Time) verdict {
	err := fmt.Errorf("HTTP %s", resp.Status)
	switch code := resp.StatusCode; {
	case code < 400:
		return undecided(err.Error())
	case code == http.StatusTooManyRequests:
		v := undecided(err.Error())
		v.server = fusebox.Result{Outcome: fusebox.Throttled, Err: err, NotBefore: retryafter.Of(resp.Header, now)}
		return v
	case code == http.StatusNotFound && resp.Request != nil && resp.Request.Header.Get(sessionHeader) != "":
		return undecided("its session is over")
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return broken(fusebox.ClassTimeout, err)
	case code == http.StatusServiceUnavailable, code == 529:
		v := broken(fusebox.ClassOverloaded, err)
		v.server.NotBefore = retryafter.Of(resp.Header, now)
		return v
	case code >= 500:
		return broken(fusebox.ClassServer, err)
	}
	return verdict{tool: fusebox.Result{Outcome: fusebox.Rejected, Err: err}}
}

// closing calls f when the body is closed.
func closing(body io.ReadCloser, f func()) io.ReadCloser {
	return &closingBody{body, f}
}

type closingBody struct {
	io.ReadCloser
	f func()
}

func (b *closingBody) Close() error {
	err := b.ReadCloser.Close()
	b.f()
	return err
}
