package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// patience is the longest Retry-After with which an SDK may be left to try
// again by itself; beyond it nobody waits, and it is told not to.
const patience = time.Minute

// exhausted answers when no backend of the route has: with what each of them
// did, with the earliest time at which one reopens, and with what to do instead.
func (c *call) exhausted() {
	failed, absent := c.last(fusebox.Failure), c.last(fusebox.Rejected)
	if failed == nil && absent != nil && !c.throttled() {
		c.answeredBy = absent.backend.Name
		if c.pulse.stop() {
			c.status, c.outcome = http.StatusOK, "failed"
			c.w.Write(lateEvent(c.endpoint.format, *absent.reply))
			c.abort()
		}
		c.begin(absent.backend, absent.reply.status, absent.reply.header, int64(len(absent.reply.body)))
		c.w.Write(absent.reply.body)
		return
	}
	wait, refusing := c.reopens()
	r := &refusal{wait: wait, denial: c.soonestDenial(), message: c.words(wait)}
	switch {
	case failed != nil:
		r.status, r.code = failureStatus(&failed.verdict), "backend_failed"
		r.final = refusing || failed.verdict.result.Class == fusebox.ClassAuth
	case c.throttled():
		r.status, r.code, r.final = http.StatusTooManyRequests, "throttled", wait > patience
	default:
		r.status, r.code, r.final = http.StatusServiceUnavailable, "circuit_open", true
	}
	c.refuse(r)
}

// last returns the last backend that was tried with an outcome, or nil.
func (c *call) last(o fusebox.Outcome) (found *trial) {
	for i := range c.trials {
		if t := &c.trials[i]; t.denial == nil && t.verdict.result.Outcome == o {
			found = t
		}
	}
	return found
}

// throttled reports whether a backend wants to be left alone for a while.
func (c *call) throttled() bool {
	for i := range c.trials {
		t := &c.trials[i]
		if t.denial != nil && t.denial.Reason() == fusebox.ReasonThrottled ||
			t.denial == nil && t.verdict.result.Outcome == fusebox.Throttled {
			return true
		}
	}
	return false
}

// reopens returns when the first of the backends may be asked again, 0 for now
// or unknown, and whether all of them refuse at present.
func (c *call) reopens() (wait time.Duration, refusing bool) {
	now := time.Now()
	for i := range c.trials {
		closed, left := c.trials[i].closed(now)
		if !closed {
			return 0, false
		}
		if left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait, true
}

// closed reports whether the backend may not be asked now, and for how long as
// far as is known.
func (t *trial) closed(now time.Time) (closed bool, left time.Duration) {
	if t.denial != nil {
		return true, t.denial.RetryAfter()
	}
	if t.verdict.owner == ofClient {
		return true, t.verdict.result.NotBefore.Sub(now)
	}
	for _, circuit := range []*fusebox.Circuit{t.circuit, t.account} {
		if circuit == nil {
			continue
		}
		state := circuit.State()
		if d := state.Decide(now); !d.Go && !d.Probe {
			closed, left = true, max(left, d.RetryAfter)
		}
	}
	return closed, left
}

// soonestDenial is the refusal that ends first, nil if there was none.
func (c *call) soonestDenial() (soonest *fusebox.Denial) {
	for i := range c.trials {
		if d := c.trials[i].denial; d != nil && (soonest == nil || d.RetryAfter() < soonest.RetryAfter()) {
			soonest = d
		}
	}
	return soonest
}

// words says what happened and what to do.
func (c *call) words(wait time.Duration) string {
	var b strings.Builder
	b.WriteString("No backend has answered this request. ")
	for i := range c.trials {
		t := &c.trials[i]
		fmt.Fprintf(&b, "%s: %s. ", t.backend.Name, strings.TrimRight(t.words(), "."))
	}
	if wait > 0 {
		fmt.Fprintf(&b, "The first of them is open again in %d s. ", fusebox.Seconds(wait))
	}
	b.WriteString("Continue without this model, and say so in your answer.")
	return b.String()
}

// words says in half a sentence why the backend has not answered.
func (t *trial) words() string {
	if t.denial == nil {
		return fusebox.ErrorText(t.verdict.result.Err)
	}
	d := t.denial
	left := ""
	if s := fusebox.Seconds(d.RetryAfter()); s > 0 {
		left = fmt.Sprintf(" for another %d s", s)
	}
	what := ""
	if d.Circuit() != t.circuit.Name() {
		what = d.Circuit() + " "
	}
	switch d.Reason() {
	case fusebox.ReasonThrottled:
		if d.LastError() != "" {
			return what + "throttled" + left + ": " + d.LastError()
		}
		return what + "throttled" + left
	case fusebox.ReasonHeld:
		return what + "held open by an operator" + left
	case fusebox.ReasonProbing:
		return what + "one call is testing whether it is back"
	}
	if d.LastError() != "" {
		return fmt.Sprintf("%scircuit open%s, the last failure: %s", what, left, d.LastError())
	}
	return what + "circuit open" + left
}

// failureStatus is the status by which a client learns of a backend's failure.
func failureStatus(v *verdict) int {
	switch {
	case v.result.Class == fusebox.ClassAuth:
		return http.StatusServiceUnavailable // its own credential is not what was refused
	case v.status >= 500 && v.status <= 599:
		return v.status
	case v.result.Class == fusebox.ClassTimeout, v.result.Class == fusebox.ClassStall:
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
