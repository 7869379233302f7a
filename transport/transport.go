// Package transport puts an [http.RoundTripper] under circuits, one per host
// unless told otherwise:
//
//	request ──> circuit ──denied──> *fusebox.Denial, nothing is sent
//	               │
//	               go ──> base ──error──────────────────────> reported
//	                        │
//	                        response ──it says "failed"─────> reported at its header
//	                           │
//	                           └─────it says "worked"───────> reported at its body's end
//
// With a policy's Overdue a call is late until the first byte of its body comes,
// however good its header: a stream may begin at once and say nothing.
//
// An answer that worked is counted when its body ends, because a stream that
// breaks after a good header has failed. Read or close every body, as net/http
// asks for anyway: one that is neither is reported by nobody, and a probe among
// them holds its slot until its lease lapses.
package transport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// Config is what a Transport needs to know.
type Config struct {
	// Box holds the circuits. Required.
	Box *fusebox.Box

	// Base makes the calls. nil = [http.DefaultTransport].
	Base http.RoundTripper

	// Circuit names the circuit that guards a request; "" lets the request pass
	// unguarded. nil = [Host]. It is called from many goroutines.
	Circuit func(*http.Request) string

	// Classify says what a response means, from its status and header; it must
	// leave the body alone. nil = [Classify]. It is called from many goroutines.
	Classify func(*http.Response) fusebox.Result
}

// Transport is an [http.RoundTripper] that asks a circuit before each request
// and reports how it went. It is safe for concurrent use.
//
// A refusal is a *[fusebox.Denial], which [http.Client] wraps in a *url.Error:
// [fusebox.AsDenial] finds it there. A redirect that a Client follows is a
// request of its own.
type Transport struct {
	box      *fusebox.Box
	base     http.RoundTripper
	circuit  func(*http.Request) string
	classify func(*http.Response) fusebox.Result
}

// New returns a Transport, or an error if c lacks its Box.
func New(c Config) (*Transport, error) {
	if c.Box == nil {
		return nil, errors.New("transport: Config.Box is nil, want the Box that holds the circuits")
	}
	t := &Transport{box: c.Box, base: c.Base, circuit: c.Circuit, classify: c.Classify}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.circuit == nil {
		t.circuit = Host
	}
	if t.classify == nil {
		t.classify = Classify
	}
	return t, nil
}

// Host names a request's circuit after where it goes: "server/example.com", and
// "server/example.com:8443" for a port that is not its scheme's own. It is "" for
// a request that goes nowhere.
func Host(r *http.Request) string {
	if r.URL == nil || r.URL.Hostname() == "" {
		return ""
	}
	host := strings.TrimSuffix(r.URL.Hostname(), ".")
	switch port := r.URL.Port(); {
	case port == "", r.URL.Scheme == "http" && port == "80", r.URL.Scheme == "https" && port == "443":
		return "server/" + host
	default:
		return "server/" + net.JoinHostPort(host, port)
	}
}

// RoundTrip makes the request if its circuit lets it through.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	permit, err := t.allow(r)
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	call := &call{ctx: r.Context(), permit: permit}
	defer call.settleUnwinding()

	resp, err := t.base.RoundTrip(r)
	if err != nil {
		call.settle(failedToSend(r.Context(), err))
		return resp, err
	}
	result := t.classify(resp)
	switch {
	case !worked(result), endsWithHeader(resp):
		call.settle(result)
	default:
		call.handed = true
		resp.Body = &body{ReadCloser: resp.Body, call: call, atEnd: result}
	}
	return resp, nil
}

// allow asks the request's circuit. The zero Permit stands for no circuit.
func (t *Transport) allow(r *http.Request) (fusebox.Permit, error) {
	if err := r.Context().Err(); err != nil {
		return fusebox.Permit{}, err
	}
	name := t.circuit(r)
	if name == "" {
		return fusebox.Permit{}, nil
	}
	circuit, err := t.box.Circuit(name)
	if errors.Is(err, fusebox.ErrFull) {
		return fusebox.Permit{}, nil // no room to watch this host is no reason not to call it
	}
	if err != nil {
		return fusebox.Permit{}, fmt.Errorf("transport: %w", err)
	}
	return circuit.Allow(r.Context())
}

// CloseIdleConnections closes those of the base, so that
// [http.Client.CloseIdleConnections] works through a Transport.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
