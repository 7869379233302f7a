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
	pause, throttled := c.pause()
	if failed == nil && absent != nil && !throttled {
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
	r := &refusal{wait: c.reopens()}
	refusing := c.soonestRefusal()
	if refusing != nil {
		r.denial = refusing.denial
	}
	switch {
	case failed != nil: // as often as is worth it: only the end of a throttle can make a difference
		r.status, r.code, r.final = failureStatus(&failed.verdict), "backend_failed", !throttled || pause > patience
		if !r.final {
			r.wait = pause
		}
	case throttled:
		r.status, r.code, r.final = http.StatusTooManyRequests, "throttled", r.wait > patience
	default:
		r.status, r.code, r.final = http.StatusServiceUnavailable, "circuit_open", true
	}
	r.message = c.words(r.wait)
	if refusing != nil && r.final {
		r.denial = c.countRefusal(refusing)
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

// pause returns how long it is until the first backend may be asked that wants
// to be left alone for a while, and whether there is such a one.
func (c *call) pause() (shortest time.Duration, throttled bool) {
	now := time.Now()
	for i := range c.trials {
		t := &c.trials[i]
		if !t.throttled() {
			continue
		}
		if _, left := t.closed(now); !throttled || left < shortest {
			shortest, throttled = left, true
		}
	}
	return shortest, throttled
}

// throttled reports whether the backend wants to be left alone for a while.
func (t *trial) throttled() bool {
	if t.denial != nil {
		return t.denial.Reason() == fusebox.ReasonThrottled
	}
	r := &t.verdict.result
	return r.Outcome == fusebox.Throttled || !r.NotBefore.IsZero()
}

// reopens returns how long it is until the first of the backends may be asked
// again; 0 = now, or unknown.
func (c *call) reopens() (wait time.Duration) {
	now := time.Now()
	for i := range c.trials {
		closed, left := c.trials[i].closed(now)
		if !closed {
			return 0
		}
		if left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	return wait
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

// soonestRefusal is that whose end comes first; nil = no circuit refused.
func (c *call) soonestRefusal() (soonest *trial) {
	for i := range c.trials {
		if t := &c.trials[i]; t.denial != nil && (soonest == nil || t.denial.RetryAfter() < soonest.denial.RetryAfter()) {
			soonest = t
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
