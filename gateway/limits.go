package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Timeouts are the limits of one visit to a backend. Zero stands for what is
// built in: connect 5 s, headers and first token 60 s, idle 30 s, total 10 m.
//
// A streamed answer is held to all of them. One that is not streamed is held to
// Connect and Total, and to Headers and Idle where they are set: a long answer
// sends no header until it is complete.
type Timeouts struct {
	Connect    time.Duration // until there is a connection
	Headers    time.Duration // until the answer's header
	FirstToken time.Duration // until the first content of a stream
	Idle       time.Duration // silence within an answer
	Total      time.Duration // the whole visit
}

var builtinTimeouts = Timeouts{
	Connect: 5 * time.Second, Headers: time.Minute, FirstToken: time.Minute, Idle: 30 * time.Second, Total: 10 * time.Minute,
}

// forStreams returns t with what is built in for streams where it says nothing.
func (t Timeouts) forStreams() Timeouts {
	or := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	b := builtinTimeouts
	return Timeouts{or(t.Connect, b.Connect), or(t.Headers, b.Headers), or(t.FirstToken, b.FirstToken), or(t.Idle, b.Idle), or(t.Total, b.Total)}
}

// forWhole returns t for answers that are not streamed: what it does not set
// has no limit but the total.
func (t Timeouts) forWhole() Timeouts {
	all := t.forStreams()
	return Timeouts{Connect: all.Connect, Headers: t.Headers, FirstToken: 0, Idle: t.Idle, Total: all.Total}
}

// limitError says which limit passed.
type limitError struct {
	waitedFor string
	limit     time.Duration
}

func (e *limitError) Error() string {
	return fmt.Sprintf("no %s within %v", e.waitedFor, e.limit)
}

// What is waited for.
const (
	theHeaders    = "response header"
	theFirstToken = "first token"
	theNextToken  = "next token"
	theWhole      = "complete answer"
)

// class is stall for an answer that fell silent, else timeout.
func (e *limitError) class() fusebox.Class {
	if e.waitedFor == theNextToken {
		return fusebox.ClassStall
	}
	return fusebox.ClassTimeout
}

// What is waited for of the client.
const (
	theRequest = "request"
	theClient  = "client to read"
)

// watchdog ends what a request waits for when its limit passes, also while a
// read or a write blocks: an attempt, by cancelling its context with a
// *limitError as the cause; the client, by a deadline of its connection that
// has passed. One timer serves all limits, of one request after another; as they
// are mostly put off, it is left running and looks at what is due when it fires.
type watchdog struct {
	mu     sync.Mutex // guards the rest
	timer  *time.Timer
	armed  time.Time // when the timer fires; zero = it does not
	due    time.Time // zero = nothing is: the clock stands
	what   string    // is waited for
	limit  time.Duration
	client *http.ResponseController // the request's
	cut    bool                     // it was given a deadline that has passed
	cancel context.CancelCauseFunc  // the attempt's; nil = there is none
	total  time.Duration            // likewise
	end    time.Time                // of the total
}

// attend begins a request.
func (w *watchdog) attend(client *http.ResponseController) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client, w.cut = client, false
}

// leave ends a request. Its connection is left as it was: the next request on
// it may come much later.
func (w *watchdog) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		w.client.SetReadDeadline(time.Time{})
		w.client.SetWriteDeadline(time.Time{})
	}
	w.due, w.client = time.Time{}, nil
}

// watch begins an attempt that may take total from now on.
func (w *watchdog) watch(parent context.Context, total time.Duration, now time.Time) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel, w.total, w.end = cancel, total, now.Add(total)
	w.await(theWhole, total, w.end)
	return ctx
}

// expect sets the limit for what comes next of the attempt; 0 = the total alone.
func (w *watchdog) expect(what string, limit time.Duration) {
	var now time.Time
	if limit > 0 {
		now = time.Now()
	}
	w.expectSince(what, limit, now)
}

// expectSince is expect for a limit that began to run at a time.
func (w *watchdog) expectSince(what string, limit time.Duration, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if by := since.Add(limit); limit > 0 && by.Before(w.end) {
		w.await(what, limit, by)
	} else {
		w.await(theWhole, w.total, w.end)
	}
}

// expectClient sets the limit for the client: no other one runs meanwhile.
func (w *watchdog) expectClient(what string, limit time.Duration, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.await(what, limit, since.Add(limit))
}

// await sets what is due. The caller holds the lock.
func (w *watchdog) await(what string, limit time.Duration, due time.Time) {
	w.what, w.limit, w.due = what, limit, due
	if w.armed.IsZero() || due.Before(w.armed) {
		w.arm(time.Until(due))
	}
}

// arm sets the timer for what is due. The caller holds the lock.
func (w *watchdog) arm(left time.Duration) {
	w.armed = w.due
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.look)
	} else {
		w.timer.Reset(left)
	}
}

// look is called when the timer fires.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = time.Time{}
	if w.due.IsZero() {
		return
	}
	if left := time.Until(w.due); left > 0 {
		w.arm(left)
		return
	}
	w.due = time.Time{}
	switch w.what {
	case theRequest:
		w.cut = true
		w.client.SetReadDeadline(time.Now())
	case theClient:
		w.cut = true
		w.client.SetWriteDeadline(time.Now())
	default:
		w.cancel(&limitError{w.what, w.limit})
	}
}

// rest stops the clock, and reports whether that was before the limit.
func (w *watchdog) rest() (inTime bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	inTime = !w.due.IsZero()
	w.due = time.Time{}
	return inTime
}

// stop ends the attempt and frees what it holds.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
	w.cancel(nil)
	w.cancel = nil
}
