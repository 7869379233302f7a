package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// call is one client's request on its way through the gateway.
type call struct {
	g        *Gateway
	w        http.ResponseWriter
	r        *http.Request
	control  *http.ResponseController
	dog      *watchdog
	endpoint endpoint
	body     []byte
	peeked   peeked
	began    time.Time
	run      *fusebox.Run // which it belongs to; nil = none

	route     route   // with the backends that speak the dialect
	pulse     *pulse  // while a stream is held back; nil = none is
	trials    []trial // backends that did not answer, in order
	attempts  int
	failovers int
	trial     trial   // the visit under way
	admitted  permits // to it
	current   attempt // of it

	answeredBy string // the backend whose answer the client has
	circuit    string
	status     int // of what the client was sent; 0 = nothing yet
	outcome    string
	firstToken time.Duration
}

// trial is what became of one backend that did not answer.
type trial struct {
	backend *backend
	circuit *fusebox.Circuit
	account *fusebox.Circuit // its credential's; nil = none
	denial  *fusebox.Denial  // it was not tried
	verdict verdict          // else: what was seen
	reply   *reply           // and said, if it was an answer
}

// statusClientGone is what a request that its client gave up is logged with.
const statusClientGone = 499

// bodyTime is how long a client may take to send its request.
const bodyTime = 2 * time.Minute

// readRequest reads the body, and of it what the gateway must know. The error
// is a *refusal, or errClientGone.
func (c *call) readRequest() error {
	if err := c.readBody(); err != nil {
		return err
	}
	if !c.endpoint.call {
		c.peeked.answers = 1
		if p, err := peek(c.body); err == nil {
			c.peeked = p
		} else if name, found := strings.CutPrefix(c.endpoint.path, "/models/"); found {
			c.peeked.model = name
		}
		return nil
	}
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return refuse(http.StatusUnsupportedMediaType, "encoding_not_supported", "Send the body without Content-Encoding: the gateway must read the model's name.")
	}
	p, err := peek(c.body)
	if err == nil && p.model == "" {
		err = errNoModel
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "invalid_body", "The request cannot be routed: "+err.Error()+".")
	}
	c.peeked = p
	return nil
}

func (c *call) readBody() (err error) {
	n, limit := c.r.ContentLength, c.g.maxBody
	if n == 0 {
		return nil
	}
	if n > limit {
		c.w.Header().Set("Connection", "close")
		return tooLarge(limit)
	}
	c.dog.expectClient(theRequest, bodyTime, c.began)
	if n > 0 {
		c.body, err = readDeclared(c.r.Body, n)
	} else {
		c.body, err = io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, limit))
	}
	inTime := c.dog.rest()
	if err == nil && inTime {
		return nil
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(limit)
	case !inTime, isTimeout(err):
		return refuse(http.StatusRequestTimeout, "request_timeout", fmt.Sprintf("The body did not arrive within %v.", bodyTime))
	}
	return c.over()
}

// believed is how much of a declared length gets its memory before it is there.
const believed = 1 << 20

// readDeclared reads a body of n bytes. Memory for all of a long one is made when
// its first part has come, so that a length alone costs nothing.
func readDeclared(r io.Reader, n int64) ([]byte, error) {
	first := make([]byte, min(n, believed))
	if _, err := io.ReadFull(r, first); err != nil || int64(len(first)) == n {
		return first, err
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body[copy(body, first):])
	return body, err
}

func tooLarge(limit int64) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "request_too_large",
		fmt.Sprintf("The body is larger than %d bytes, the most that this gateway keeps. Send less.", limit))
}

// serve tries the route's backends in order until one has answered.
func (c *call) serve() {
	c.route = c.g.routeFor(c.endpoint.dialect, c.peeked.model)
	if len(c.route.tiers) == 0 {
		c.refuse(c.noRoute())
		return
	}
	if c.holds() && c.peeked.stream {
		c.pulse = newPulse(c.w, c.g.pulse)
	}
	for _, t := range c.route.tiers {
		answered, on := c.ask(t)
		if answered {
			return
		}
		if !on {
			break
		}
	}
	switch {
	case errors.Is(c.r.Context().Err(), context.Canceled):
		c.refuse(c.over())
	case c.lastResort():
	default:
		c.exhausted()
	}
}

// ask asks the backends of one priority, in the order that their weights give.
// It reports whether the client has an answer now, and whether those of the
// next priority may be asked else.
func (c *call) ask(t *tier) (answered, on bool) {
	for turn := t.begin(); ; {
		b := turn.next()
		if b == nil {
			return false, true
		}
		if c.visit(b) {
			return true, true
		}
		if c.trials[len(c.trials)-1].denial != nil {
			turn.pass()
		}
		if c.r.Context().Err() != nil || c.spent() || !c.mayGoElsewhere() {
			return false, false
		}
	}
}

// spent reports whether the request has made all attempts that its route allows.
func (c *call) spent() bool { return c.route.most > 0 && c.attempts >= c.route.most }

// holds reports whether answers are held back until they are complete.
func (c *call) holds() bool { return c.route.whole && c.endpoint.call }

// mayGoElsewhere reports whether the next backend may be sent the request:
// one that changes something, as an upload, is not repeated once a backend may
// have acted on it.
func (c *call) mayGoElsewhere() bool {
	t := &c.trials[len(c.trials)-1]
	return t.denial != nil || c.endpoint.harmless(c.r.Method) || t.verdict.untouched()
}

func (c *call) noRoute() *refusal {
	spoken := false
	for _, b := range c.g.backends {
		spoken = spoken || b.Dialect == c.endpoint.dialect
	}
	if !spoken {
		return refuse(http.StatusNotFound, "no_backend", fmt.Sprintf("No backend of this gateway speaks the %s API, to which %s belongs.", c.endpoint.dialect, shorten(c.r.URL.Path)))
	}
	return c.g.noRoute(c.endpoint.dialect, c.peeked.model)
}

// visit asks one backend for the answer, and reports whether the client has
// one now. A throttle that ends soon enough is waited out.
func (c *call) visit(b *backend) bool {
	model := mapped(b.Models, c.peeked.model)
	circuit, err := b.circuit(model)
	if err != nil {
		c.noCircuit(b, err)
		return false
	}
	t := &c.trial
	for left := c.g.retry.Wait; ; {
		*t = trial{}
		t.backend, t.circuit = b, circuit
		if c.tryOnce(t, model) {
			return true
		}
		wait, throttled := t.throttledFor(time.Now())
		if !throttled || c.spent() || wait > left || !c.sleep(wait) {
			c.trials = append(c.trials, *t)
			return false
		}
		left -= wait
	}
}

func (c *call) noCircuit(b *backend, err error) {
	c.g.log.Error("no circuit", "backend", b.Name, "error", err)
	c.trials = append(c.trials, trial{backend: b, verdict: failure(fusebox.ClassServer, 0, err)})
}

// leastWait is the shortest wait for a throttle: its circuit may be a little
// late to see that it is over.
const leastWait = 10 * time.Millisecond

// throttledFor is how long the backend wants to be left alone, if it does.
func (t *trial) throttledFor(now time.Time) (wait time.Duration, throttled bool) {
	switch {
	case t.denial != nil && t.denial.Reason() == fusebox.ReasonThrottled:
		wait = t.denial.RetryAfter()
	case t.denial == nil && t.verdict.owner == ofModel && !t.verdict.result.NotBefore.IsZero():
		wait = t.verdict.result.NotBefore.Sub(now)
	default:
		return 0, false
	}
	return max(wait, leastWait), true
}

// tryOnce makes one visit, if the circuits allow it, and reports whether the
// client has an answer now.
func (c *call) tryOnce(t *trial, model string) (answered bool) {
	if t.backend.ClientKey && c.keyThrottled(t) {
		return false
	}
	var err error
	if c.admitted, err = t.backend.admit(c.r.Context(), t.circuit); err != nil {
		c.denied(t, err)
		return false
	}
	return c.spend(t, model)
}

// keyThrottled reports whether the backend wants to be left alone by the
// client's own key.
func (c *call) keyThrottled(t *trial) bool {
	until := t.backend.clients.throttled(keyOf(c.r.Header), time.Now())
	if until.IsZero() {
		return false
	}
	t.denial = fusebox.NewDenial(fusebox.DenialInfo{Circuit: t.circuit.Name(), Reason: fusebox.ReasonThrottled, Until: until})
	return true
}

// denied notes why the backend was not tried.
func (c *call) denied(t *trial, err error) {
	if t.denial = fusebox.AsDenial(err); t.denial == nil {
		t.verdict = judgeError(c.r.Context(), c.r.Context(), err, false)
	}
}

// spend makes the visit that it was admitted to, with its retries, and gives the
// permits back whatever happens.
func (c *call) spend(t *trial, model string) (answered bool) {
	p, a := &c.admitted, &c.current
	defer p.lapse()
	t.account = p.account
	now := time.Now()
	t.backend.allowance.Called(now)
	attempts, broken := 0, false
	for ; ; now = time.Now() {
		attempts++
		*a = attempt{}
		a.call, a.backend, a.model, a.permits, a.number, a.started = c, t.backend, model, p, attempts, now
		a.make()
		t.verdict, t.reply, answered, broken = a.verdict, a.reply, a.answered, a.broken
		c.tell(a, p.circuit.Name())
		if answered || !c.mayRepeat(a, p, attempts) || !c.mayGoOn(t, p) {
			break
		}
	}
	c.settle(p, &t.verdict, attempts)
	if answered {
		c.answeredBy, c.circuit = t.backend.Name, p.circuit.Name()
	} else {
		c.failovers++
	}
	if broken {
		if c.outcome = "failed"; errors.Is(t.verdict.result.Err, errClientGone) {
			c.outcome = "canceled"
		}
		panic(http.ErrAbortHandler) // so that the client cannot take what it has for the whole
	}
	return answered
}

// mayRepeat reports whether the visit's next attempt is to be made, after the
// pause before it.
func (c *call) mayRepeat(a *attempt, p *permits, attempts int) bool {
	retry, now := c.g.retry, time.Now()
	if n := p.circuit.Policy().Probe.Attempts; p.model.Probe() && n > 0 {
		retry.Attempts = min(retry.Attempts, n)
	}
	if n, _ := strconv.Atoi(c.r.Header.Get("X-Stainless-Retry-Count")); n > 0 {
		retry.Attempts = 1 // the client's SDK is retrying already
	}
	deadline, _ := c.r.Context().Deadline()
	pause, ok := retry.Next(attempts, a.verdict.result, now, deadline)
	if !ok || c.spent() || !a.repeatable() || !a.backend.allowance.Take(now) {
		return false
	}
	if !c.sleep(pause) || !p.model.Valid() {
		a.backend.allowance.GiveBack(time.Now())
		return false
	}
	return true
}

// mayGoOn reports the attempt that failed, where each counts by itself, and asks
// the circuits for the next one.
func (c *call) mayGoOn(t *trial, p *permits) bool {
	if !p.circuit.PerAttempt() {
		return true
	}
	c.settle(p, &t.verdict, 1)
	next, err := t.backend.admit(c.r.Context(), p.circuit)
	if err != nil {
		t.backend.allowance.GiveBack(time.Now())
		return false
	}
	*p = next
	return true
}

// settle gives permits back with what so many attempts showed.
func (c *call) settle(p *permits, v *verdict, attempts int) {
	if p.circuit.PerAttempt() {
		attempts = 1
	}
	v.result.Attempts = attempts
	if c.run != nil {
		v.result.Run = c.run.ID()
		if !p.settled {
			c.run.Note(p.circuit, v.result.Outcome)
		}
	}
	p.settle(v)
}

// sleep waits, and reports whether the client is still there.
func (c *call) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.r.Context().Done():
		return false
	}
}

// lastResort probes, where every backend's circuit is open, one of them before
// its time: the one that reopens soonest of those that were not probed so in
// this cooldown. A refused credential is not probed: waiting does not mend it.
func (c *call) lastResort() bool {
	var open []*trial
	for i := range c.trials {
		t := &c.trials[i]
		if t.denial == nil || t.denial.Reason() != fusebox.ReasonOpen {
			return false
		}
		if refused := t.denial.Circuit(); refused == t.circuit.Name() || refused == t.backend.checkCircuit() {
			open = append(open, t)
		}
	}
	slices.SortStableFunc(open, func(a, b *trial) int {
		return cmp.Compare(a.denial.RetryAfter(), b.denial.RetryAfter())
	})
	for _, t := range open {
		p, err := t.backend.admitLastResort(c.r.Context(), t.circuit, t.denial.Circuit())
		if err != nil {
			continue
		}
		*t, c.admitted = trial{backend: t.backend, circuit: t.circuit}, p
		return c.spend(t, mapped(t.backend.Models, c.peeked.model))
	}
	return false
}

// refuse answers with an error of the gateway's own.
func (c *call) refuse(err error) {
	var r *refusal
	if !errors.As(err, &r) {
		c.gone()
	}
	c.status, c.outcome = r.status, "failed"
	late := c.pulse.stop()
	c.setHeaders("", "")
	if late {
		c.status = http.StatusOK
		c.w.Write(wrapError(c.endpoint.format, r.body(c.endpoint.dialect), r.message))
		c.abort()
	}
	r.write(c.w, c.endpoint.dialect)
}

// abort ends the connection, after what was sent to the client, so that it
// cannot take that for the whole answer. It does not return.
func (c *call) abort() {
	c.control.Flush()
	panic(http.ErrAbortHandler)
}

// over is why a request must end before it has an answer.
func (c *call) over() error {
	if errors.Is(context.Cause(c.r.Context()), ErrStopped) {
		return refuse(http.StatusServiceUnavailable, "stopping", "This gateway is being stopped, and the request had no answer yet.")
	}
	return errClientGone
}

// gone ends a request whose client does not wait for it any more. It does not return.
func (c *call) gone() {
	c.status, c.outcome = statusClientGone, "canceled"
	panic(http.ErrAbortHandler)
}

// begin sends the header of backend b's answer, unless comments have begun a
// stream, with a header that they had to do without. A length of 0 or less is
// left to the server to find.
func (c *call) begin(b *backend, status int, header http.Header, length int64) {
	if c.pulse.stop() {
		c.status, c.outcome = http.StatusOK, c.outcomeBy(b)
		c.setHeaders(b.Name, c.outcome)
		return
	}
	h := c.w.Header()
	copyHeaders(h, header)
	if length > 0 {
		setLength(h, header, length)
	}
	c.status, c.outcome = status, c.outcomeBy(b)
	c.setHeaders(b.Name, c.outcome)
	c.w.WriteHeader(status)
}

// setHeaders says who answered and at what cost.
func (c *call) setHeaders(backend, outcome string) {
	h, values := c.w.Header(), []string{strconv.Itoa(c.attempts), backend, outcome} // one allocation for all
	h[headerAttempts] = values[0:1:1]
	if backend != "" {
		h[headerBackend], h[headerOutcome] = values[1:2:2], values[2:3:3]
	}
}

// outcomeBy is what an answer by b says of the route.
func (c *call) outcomeBy(b *backend) string {
	if !c.route.tiers[0].has(b) {
		return outcomeDegraded
	}
	return outcomeOK
}

// tell reports an attempt to the observer and the log.
func (c *call) tell(a *attempt, circuit string) {
	r := &a.verdict.result
	if r.Outcome != fusebox.Success {
		c.g.log.Info("attempt", "backend", a.backend.Name, "circuit", circuit,
			"outcome", r.Outcome.String(), "class", string(r.Class), "error", fusebox.ErrorText(r.Err))
	}
	if c.g.observer.Attempt != nil {
		c.g.observer.Attempt(Attempt{Backend: a.backend.Name, Dialect: a.backend.Dialect, Circuit: circuit,
			Outcome: r.Outcome, Class: r.Class, Elapsed: time.Since(a.started), FirstToken: a.firstToken})
	}
}

// end reports the request, once it is over, and gives the call back.
func (c *call) end() {
	c.pulse.stop()
	c.dog.leave()
	c.report()
	g := c.g
	*c = call{dog: c.dog}
	g.calls.Put(c)
}

func (c *call) report() {
	if c.g.observer.Request == nil {
		return
	}
	refusals := 0
	for i := range c.trials {
		if c.trials[i].denial != nil {
			refusals++
		}
	}
	c.g.observer.Request(Request{Dialect: c.endpoint.dialect, Route: c.route.match, Backend: c.answeredBy, Circuit: c.circuit,
		Status: c.status, Outcome: c.outcome, Attempts: c.attempts, Failovers: c.failovers, Refusals: refusals,
		Elapsed: time.Since(c.began), FirstToken: c.firstToken})
}
