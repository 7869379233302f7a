package gateway

import (
	"net/http"
	"strings"
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

// hopByHop headers belong to one connection.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// private headers are the client's: they say who it is, to whom it chose.
var private = map[string]bool{
	"Authorization": true, "X-Api-Key": true, "Api-Key": true, "X-Goog-Api-Key": true, "Cookie": true,
	"Openai-Organization": true, "Openai-Project": true,
}

// forwarded returns the headers of a request as backend b is sent them.
func (b *backend) forwarded(h http.Header, a *access) http.Header {
	out := make(http.Header, len(h)+1)
	named := h.Values("Connection")
	for name, values := range h {
		switch {
		case hopByHop[name], isNamed(named, name), strings.HasPrefix(name, "Fusebox-"):
		case private[name] && !(b.ClientKey && name != "Cookie"):
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
	named := from.Values("Connection")
	for name, values := range from {
		if hopByHop[name] || isNamed(named, name) || strings.HasPrefix(name, "Fusebox-") || name == "Content-Length" {
			continue
		}
		to[name] = values
	}
}

// isNamed reports whether a Connection header lists name.
func isNamed(connection []string, name string) bool {
	for _, line := range connection {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), name) {
				return true
			}
		}
	}
	return false
}
