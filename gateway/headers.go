package gateway

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/fusebox-go/fusebox/internal/hopbyhop"
)

// Headers of the gateway's own, on every answer to a model request.
const (
	headerBackend  = "Fusebox-Backend"
	headerOutcome  = "Fusebox-Outcome"
	headerAttempts = "Fusebox-Attempts"
	headerMissing  = "Fusebox-Missing" // on /v1/models: backends that are left out
)

// What the outcome header says.
const (
	outcomeOK       = "ok"
	outcomeDegraded = "degraded" // by another backend than the first choice, or with some missing
)

// isPrivate reports whether a header is the client's: it says who that is, to
// whom it chose.
func isPrivate(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Openai-Organization", "Openai-Project":
		return true
	}
	return false
}

// forwarded returns the headers of a request as backend b is sent them.
func (b *backend) forwarded(h http.Header, a *access) http.Header {
	out := make(http.Header, len(h)+1)
	named := h["Connection"]
	for name, values := range h {
		switch {
		case hopbyhop.Is(name, named), strings.HasPrefix(name, "Fusebox-"):
		case isPrivate(name) && !(b.ClientKey && name != "Cookie"):
		case name == "Accept-Encoding", name == "Content-Length", name == "Expect": // of this connection
		default:
			out[name] = values
		}
	}
	if b.ClientKey {
		b.stripToken(out, a)
	} else if b.Key != nil {
		b.authorize(out)
	}
	if _, given := out["User-Agent"]; !given {
		out["User-Agent"] = nil // net/http would put its own
	}
	return out
}

// stripToken takes the gateway's own token out of what the client sent.
func (b *backend) stripToken(h http.Header, a *access) {
	if a.isToken(bearer(h)) {
		delete(h, "Authorization")
	}
	if a.isToken(h.Get("X-Api-Key")) {
		delete(h, "X-Api-Key")
	}
}

// authorize sets the backend's own credential.
func (b *backend) authorize(h http.Header) {
	key := b.Key()
	switch {
	case key == "":
	case b.Dialect == Anthropic:
		h.Set("X-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// copyHeaders passes an answer's headers on.
func copyHeaders(to, from http.Header) {
	named := from["Connection"]
	for name, values := range from {
		if hopbyhop.Is(name, named) || strings.HasPrefix(name, "Fusebox-") || name == "Content-Length" {
			continue
		}
		to[name] = values
	}
}

// setLength tells how long an answer is, by the backend's own header where that
// says the same.
func setLength(to, from http.Header, length int64) {
	said := from["Content-Length"]
	if len(said) == 1 {
		if n, err := strconv.ParseInt(said[0], 10, 64); err == nil && n == length {
			to["Content-Length"] = said
			return
		}
	}
	to.Set("Content-Length", strconv.FormatInt(length, 10))
}

// isEventStream reports whether an answer is a stream of server-sent events.
func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
