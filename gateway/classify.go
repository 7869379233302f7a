package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/internal/retryafter"
)

// quotaBench is how long a backend rests whose quota is used up, where it does
// not say: seconds do not mend it, and one call an hour is cheap.
const quotaBench = time.Hour

// verdict is what one attempt at a backend showed.
type verdict struct {
	result fusebox.Result
	owner  owner
	next   bool     // it was refused, but another backend may answer: the model is not here, or the route says so
	final  bool     // the backend asks not to be asked again
	status int      // of the backend's answer; 0 = none
	codes  []string // by which it named the error, in lower case
}

// failure is the verdict on an attempt that failed.
func failure(class fusebox.Class, status int, err error) verdict {
	return verdict{status: status, result: fusebox.Result{Outcome: fusebox.Failure, Class: class, Err: err}}
}

// owner is whose fate a verdict is.
type owner uint8

const (
	ofModel      owner = iota // the backend's, with this model
	ofCredential              // the credential's, whichever backends share it
	ofClient                  // the client's own credential's: no circuit learns of it
)

// untouched reports whether the backend surely has not acted on the request.
func (v *verdict) untouched() bool {
	switch r := &v.result; r.Outcome {
	case fusebox.Rejected, fusebox.Throttled:
		return true
	default:
		return r.Class == fusebox.ClassConnect || r.Class == fusebox.ClassAuth
	}
}

// repeatable reports whether the same backend may well answer if it is asked
// again at once: not one that kept the client waiting until a limit, nor one
// that said when, or never.
func (v *verdict) repeatable() bool {
	r := &v.result
	if r.Outcome != fusebox.Failure || !r.NotBefore.IsZero() || v.final {
		return false
	}
	switch r.Class {
	case fusebox.ClassConnect, fusebox.ClassReset, fusebox.ClassServer, fusebox.ClassOverloaded, fusebox.ClassStream:
		return true
	}
	return false
}

// isNamed reports whether the error goes by one of some codes.
func (v *verdict) isNamed(codes []string) bool {
	return slices.ContainsFunc(v.codes, func(code string) bool { return slices.Contains(codes, code) })
}

// contextTooLong is the code of a request that is too long for the model, also
// where the backend has none for it.
const contextTooLong = "context_length_exceeded"

// saysTooLong are pieces of what backends say that have no code for a context
// that is too long: Anthropic; llama.cpp; vLLM, OpenRouter and others; Gemini.
var saysTooLong = []string{"prompt is too long", "exceeds the available context size", "maximum context length", "exceeds the maximum number of tokens"}

// meaning is what an error code says, whatever the status beside it.
type meaning uint8

const (
	meansNothing meaning = iota
	meansRejected
	meansAbsent     // the model is not there
	meansAuth       // the credential is refused
	meansForbidden  // the credential is good, but not for this
	meansQuota      // no waiting of seconds mends it
	meansThrottled  // too fast
	meansOverloaded // too much to do
	meansServer
	meansTimeout
)

// meanings are the error codes and types of providers, in lower case. A type
// that says too little by itself, as OpenAI's invalid_request_error, is not
// among them: the status says more.
var meanings = map[string]meaning{
	"invalid_api_key": meansAuth, "authentication_error": meansAuth, "api_key_invalid": meansAuth,
	"invalid_authentication": meansAuth, "unauthenticated": meansAuth, "account_deactivated": meansAuth,

	"permission_error": meansForbidden, "permission_denied": meansForbidden,

	"insufficient_quota": meansQuota, "credit_balance_exhausted": meansQuota, "billing_error": meansQuota,
	"organization_spend_limit_exceeded": meansQuota, "project_spend_limit_exceeded": meansQuota,
	"organization_usage_limit_exceeded": meansQuota, "enforced_spend_limit_reached": meansQuota,
	"billing_hard_limit_reached": meansQuota, "billing_not_active": meansQuota,

	"rate_limit_exceeded": meansThrottled, "slow_down": meansThrottled, "rate_limit_error": meansThrottled,
	"too_many_requests": meansThrottled, "resource_exhausted": meansThrottled,

	"overloaded_error": meansOverloaded, "engine_overloaded": meansOverloaded, "unavailable": meansOverloaded,
	"service_unavailable": meansOverloaded, "server_overloaded": meansOverloaded,

	"server_error": meansServer, "api_error": meansServer, "internal_error": meansServer,
	"internal_server_error": meansServer, "internal": meansServer,

	"timeout_error": meansTimeout, "deadline_exceeded": meansTimeout,

	"model_not_found": meansAbsent, "model_not_available": meansAbsent,

	"context_length_exceeded": meansRejected, "content_policy_violation": meansRejected, "content_filter": meansRejected,
	"invalid_prompt": meansRejected, "request_too_large": meansRejected, "string_above_max_length": meansRejected,
	"unsupported_parameter": meansRejected, "unsupported_value": meansRejected, "invalid_value": meansRejected,
}

// fault is an error as a backend worded it.
type fault struct {
	meaning meaning
	status  int    // a status named inside the error, as OpenRouter does under HTTP 200
	text    string // what it said
	codes   []string
	delay   time.Duration // how long it wants to be left alone, as Gemini says in the body
}

// readFault finds the error in a body or an event: {"error":{…}}, {"error":"…"},
// {"response":{"error":{…}}}, or the object itself.
func readFault(body []byte) fault {
	body = bytes.TrimSpace(body)
	if e := (elements{members{b: body}}); len(body) > 0 && body[0] == '[' { // Gemini wraps it
		body, _ = e.next()
	}
	object := member(body, "error")
	if isNull(object) {
		if object = member(member(body, "response"), "error"); isNull(object) {
			object = body
		}
	}
	if text := plain(object); text != nil { // Ollama: a bare string
		return fault{text: string(text)}
	}
	return readErrorObject(object)
}

func readErrorObject(object []byte) (f fault) {
	var code, kind meaning
	name := func(value []byte) meaning {
		word := strings.ToLower(string(plain(value)))
		if word != "" {
			f.codes = append(f.codes, word)
		}
		return meanings[word]
	}
	for m := (members{b: object}); ; {
		key, value, ok := m.next()
		if !ok {
			break
		}
		switch string(key) {
		case "message":
			f.text = string(plain(value))
		case "code":
			if f.status = integer(value, 0); f.status == 0 {
				code = name(value)
			}
		case "type", "status":
			if means := name(value); means != meansNothing {
				kind = means
			}
		case "details":
			for reason := range f.details(value) {
				if means := name(reason); means != meansNothing {
					code = means
				}
			}
		}
	}
	if slices.ContainsFunc(saysTooLong, func(piece string) bool { return strings.Contains(f.text, piece) }) {
		f.codes = append(f.codes, contextTooLong)
	}
	if f.meaning = code; code == meansNothing {
		f.meaning = kind
	}
	if strings.Contains(f.text, "credit balance is too low") { // Anthropic: a 400 without a code of its own
		f.meaning = meansQuota
	}
	return f
}

// details yields the codes in Anthropic's details.error_code and in Gemini's
// details[].reason, and notes the time in Gemini's details[].retryDelay.
func (f *fault) details(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(value) > 0 && value[0] == '{' {
			yield(member(value, "error_code"))
			return
		}
		for e := (elements{members{b: value}}); ; {
			detail, ok := e.next()
			if !ok {
				return
			}
			if d, err := time.ParseDuration(string(plain(member(detail, "retryDelay")))); err == nil {
				f.delay = d
			}
			if !yield(member(detail, "reason")) {
				return
			}
		}
	}
}

// until is when the error's body says that its backend may be asked again; zero
// = it does not.
func (f *fault) until(now time.Time) time.Time {
	if f.delay <= 0 {
		return time.Time{}
	}
	return now.Add(min(f.delay, fusebox.MaxThrottle))
}

// judge says what an answer that is an error means. status is 0 for an error
// inside a stream that began well.
func judge(status int, h http.Header, body []byte, now time.Time) verdict {
	f := readFault(body)
	if f.status >= 400 && f.status <= 599 && (status == 0 || status == http.StatusOK) {
		status = f.status
	}
	means := f.meaning
	if means == meansNothing || means == meansServer && status >= 400 && status < 500 { // Ollama: api_error, of a model that is not there
		means = meaningOfStatus(status)
	}
	v := verdict{status: status, codes: f.codes, final: h.Get("X-Should-Retry") == "false"}
	v.result.Err = answerError(status, f.text)
	switch means {
	case meansRejected:
		v.result.Outcome = fusebox.Rejected
	case meansAbsent:
		v.result.Outcome, v.next = fusebox.Rejected, true
	case meansAuth:
		v.result.Outcome, v.result.Class, v.owner = fusebox.Failure, fusebox.ClassAuth, ofCredential
	case meansForbidden:
		v.result.Outcome, v.result.Class = fusebox.Failure, fusebox.ClassAuth
	case meansQuota:
		v.result.Outcome, v.owner = fusebox.Throttled, ofCredential
		v.result.NotBefore = retryafter.Latest(now.Add(quotaBench), retryafter.Of(h, now))
	case meansThrottled:
		v.result.Outcome = fusebox.Throttled
		v.result.NotBefore = retryafter.Latest(retryafter.Of(h, now), retryafter.Spent(h, now), f.until(now))
	default:
		v.result.Outcome, v.result.Class = fusebox.Failure, classOf(means)
		v.result.NotBefore = retryafter.Of(h, now)
	}
	return v
}

func meaningOfStatus(status int) meaning {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return meansAuth
	case http.StatusPaymentRequired:
		return meansQuota
	case http.StatusNotFound:
		return meansAbsent
	case http.StatusTooManyRequests:
		return meansThrottled
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return meansTimeout
	case http.StatusServiceUnavailable, 529:
		return meansOverloaded
	}
	if status >= 300 && status < 500 {
		return meansRejected
	}
	return meansServer
}

func classOf(means meaning) fusebox.Class {
	switch means {
	case meansTimeout:
		return fusebox.ClassTimeout
	case meansOverloaded:
		return fusebox.ClassOverloaded
	}
	return fusebox.ClassServer
}

// answerError words what a backend said.
func answerError(status int, text string) error {
	switch {
	case status == 0:
		return errors.New("an error instead of an answer: " + text)
	case text == "":
		return fmt.Errorf("%d %s", status, http.StatusText(status))
	}
	return fmt.Errorf("%d: %s", status, text)
}

// judgeError says what it means that an attempt broke off with err. ctx is the
// attempt's, client the client's; began tells that an answer had begun.
func judgeError(ctx, client context.Context, err error, began bool) verdict {
	switch cause := context.Cause(client); {
	case errors.Is(cause, ErrStopped):
		return givenUp(ErrStopped)
	case errors.Is(cause, context.Canceled):
		return givenUp(errClientGone)
	}
	r := fusebox.Result{Outcome: fusebox.Failure, Err: err}
	var limit *limitError
	switch {
	case errors.As(context.Cause(ctx), &limit):
		r.Class, r.Err = limit.class(), limit
	case client.Err() != nil, errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		r.Class = fusebox.ClassTimeout
	case isConnect(err):
		r.Class = fusebox.ClassConnect
	case began:
		r.Class = fusebox.ClassStream
	default:
		r.Class = fusebox.ClassReset
	}
	return verdict{result: r}
}

var errClientGone = errors.New("the client went away")

// ErrStopped is for whoever serves a Gateway: the cause with which to cancel the
// contexts of its requests when they may not go on, as at the end of a shutdown.
// Their clients are told, in the form that they read, and no backend is blamed.
var ErrStopped = errors.New("the gateway is being stopped")

// givenUp is the verdict on an attempt that says nothing of its backend.
func givenUp(why error) verdict {
	return verdict{result: fusebox.Result{Outcome: fusebox.Canceled, Err: why}}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isConnect reports whether there never was a connection that could be used.
func isConnect(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) ||
		errors.As(err, &certificate) || errors.As(err, &record)
}
