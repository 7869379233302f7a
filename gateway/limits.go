package gateway

import (
	"context"
	"fmt"
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

// watchdog ends an attempt when a limit passes, also while a read blocks: it
// cancels the attempt's context with a *limitError as the cause. One timer
// serves all limits; as limits are mostly put off, it is left running and looks
// at what is due when it fires.
type watchdog struct {
	cancel context.CancelCauseFunc
	total  time.Duration
	end    time.Time // of the total
	timer  *time.Timer

	mu    sync.Mutex // guards the rest
	what  string     // is waited for
	limit time.Duration
	due   time.Time // zero = nothing is: the clock stands
	armed time.Time // when the timer fires; zero = it does not
}

// watch begins an attempt that may take total.
func watch(parent context.Context, total time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(parent)
	end := time.Now().Add(total)
	w := &watchdog{cancel: cancel, total: total, end: end, what: theWhole, limit: total, due: end, armed: end}
	w.mu.Lock() // the timer may be quick
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(total, w.look)
	return ctx, w
}

// look is called when the timer fires.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := time.Until(w.due)
	switch {
	case w.due.IsZero():
		w.armed = time.Time{}
	case left > 0:
		w.armed = w.due
		w.timer.Reset(left)
	default:
		w.cancel(&limitError{w.what, w.limit})
	}
}

// expect sets the limit for what comes next; 0 = the total alone.
func (w *watchdog) expect(what string, limit time.Duration) {
	w.expectSince(what, limit, time.Now())
}

// expectSince is expect for a limit that began to run at a time.
func (w *watchdog) expectSince(what string, limit time.Duration, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.limit, w.due = theWhole, w.total, w.end
	if by := since.Add(limit); limit > 0 && by.Before(w.end) {
		w.what, w.limit, w.due = what, limit, by
	}
	if w.armed.IsZero() || w.due.Before(w.armed) {
		w.armed = w.due
		w.timer.Reset(time.Until(w.due))
	}
}

// pause stops the clock: it is the client who is waited for.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = time.Time{}
}

// stop ends the attempt and frees what it holds.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
