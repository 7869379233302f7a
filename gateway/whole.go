package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// How a route hands answers on.
const (
	answersPass  = "pass"
	answersWhole = "whole"
)

// maxHeld bounds what is held back of an answer of a route with whole answers.
const maxHeld = 32 << 20

// defaultKeepAlive is how often a client is sent a comment while it waits.
const defaultKeepAlive = 10 * time.Second

// keepAlive is a comment: no reader of events takes it for a part of the answer.
const keepAlive = ": held back until complete\n\n"

// pulse keeps a client's connection alive while its stream is held back. Until
// the first comment is sent, the answer's status and header are open; after it
// what remains to be said goes into the stream, and into trailers. A nil pulse
// never beats.
type pulse struct {
	every time.Duration
	w     http.ResponseWriter

	mu      sync.Mutex // guards the rest, and w while the pulse beats
	timer   *time.Timer
	begun   bool
	stopped bool
}

func newPulse(w http.ResponseWriter, every time.Duration) *pulse {
	p := &pulse{every: every, w: w}
	p.mu.Lock() // the timer may be quick
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.beat)
	return p
}

// beat sends a comment. That the client is gone is seen by its request's context.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if !p.begun {
		p.begun = true
		h := p.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("Trailer", strings.Join([]string{headerBackend, headerOutcome, headerAttempts}, ", "))
		p.w.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(p.w)
	control.SetWriteDeadline(time.Now().Add(clientTime))
	io.WriteString(p.w, keepAlive)
	control.Flush()
	p.timer.Reset(p.every)
}

// stop ends the comments, and reports whether there were any.
func (p *pulse) stop() (begun bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun && !p.stopped {
		http.NewResponseController(p.w).SetWriteDeadline(time.Time{}) // the comments'
	}
	p.stopped = true
	p.timer.Stop()
	return p.begun
}

// tooLarge ends an answer that is larger than what is held back. Another
// backend's would hardly be smaller: the client is told, and the backend, which
// answered, is not blamed.
func (a *attempt) tooLarge() {
	a.verdict = verdict{result: fusebox.Result{Outcome: fusebox.Rejected, Err: fmt.Errorf("the answer is larger than %d bytes", maxHeld)}}
	a.answered = true
	a.conclude()
	a.refuse(&refusal{status: http.StatusBadGateway, code: "answer_too_large", final: true, message: fmt.Sprintf(
		"The answer is larger than %d bytes, the most that this route holds back. Ask for less, or use a route that passes answers on as they come.", maxHeld)})
}

// lateEvent is a complete answer, come when a stream had begun with comments,
// as that stream's error.
func lateEvent(f format, r reply) []byte {
	if r.status < 300 {
		return errorEvent(f, "The backend answered without the stream that was asked for.", 0)
	}
	var body bytes.Buffer
	if json.Compact(&body, r.body) != nil || body.Len() == 0 || body.Bytes()[0] != '{' {
		body.Reset()
	}
	return wrapError(f, body.Bytes(), answerError(r.status, readFault(r.body).text).Error())
}

// wrapError makes an event of an error's body; of the message, where the format
// shapes its errors otherwise or there is no body.
func wrapError(f format, body []byte, message string) []byte {
	switch {
	case f == formatResponses, len(body) == 0:
		return errorEvent(f, message, 0)
	case f == formatMessages:
		return append(append([]byte("event: error\ndata: "), body...), "\n\n"...)
	}
	return append(append([]byte("data: "), body...), "\n\n"...)
}
