package gateway

import (
	"fmt"
	"net/http"
	"path"
	"strings"
)

// Dialect is the API that a backend speaks and that a path belongs to.
type Dialect string

const (
	OpenAI    Dialect = "openai"
	Anthropic Dialect = "anthropic"
)

// format tells how the events of a streamed answer are to be read.
type format uint8

const (
	formatOther     format = iota // events that the gateway does not know: any data is content
	formatChat                    // OpenAI /chat/completions
	formatText                    // OpenAI /completions
	formatResponses               // OpenAI /responses
	formatMessages                // Anthropic /messages
)

// endpoint is what a request's path says.
type endpoint struct {
	dialect Dialect
	path    string // escaped, after /v1, with its slash
	call    bool   // a model call: a POST of JSON with a model's name, which may be repeated elsewhere
	list    bool   // the list of models
	format  format
}

// prefix is where the paths of both dialects begin.
const prefix = "/v1"

// modelCalls are the paths whose body names a model, after the prefix.
var modelCalls = map[string]endpoint{
	"/chat/completions":      {dialect: OpenAI, format: formatChat},
	"/completions":           {dialect: OpenAI, format: formatText},
	"/responses":             {dialect: OpenAI, format: formatResponses},
	"/embeddings":            {dialect: OpenAI},
	"/messages":              {dialect: Anthropic, format: formatMessages},
	"/messages/count_tokens": {dialect: Anthropic},
}

// endpointOf reads a request's path. Paths that both dialects have, as
// /v1/models, are Anthropic's where the request names an Anthropic-Version.
// The error is a *refusal.
func endpointOf(r *http.Request) (endpoint, error) {
	rest, found := strings.CutPrefix(r.URL.Path, prefix)
	clean := path.Clean(r.URL.Path)
	if !found || rest == "" || rest[0] != '/' || rest == "/" || clean != strings.TrimSuffix(r.URL.Path, "/") {
		return endpoint{dialect: spokenBy(r, ""), path: rest}, refuse(http.StatusNotFound, "unknown_path", fmt.Sprintf(
			"There is nothing at %s. This gateway serves the OpenAI API (/v1/chat/completions, /v1/responses, /v1/completions, "+
				"/v1/embeddings, /v1/models) and the Anthropic API (/v1/messages, /v1/messages/count_tokens, /v1/models).", shorten(r.URL.Path)))
	}
	if e, known := modelCalls[rest]; known {
		e.path, e.call = rest, true
		if r.Method != http.MethodPost {
			return e, &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: http.MethodPost,
				message: fmt.Sprintf("%s takes POST, not %s.", r.URL.Path, shorten(r.Method))}
		}
		return e, nil
	}
	e := endpoint{dialect: spokenBy(r, rest), path: strings.TrimPrefix(r.URL.EscapedPath(), prefix)}
	if rest == "/models" {
		e.list = true
		if r.Method != http.MethodGet {
			return e, &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: http.MethodGet,
				message: fmt.Sprintf("%s takes GET, not %s.", r.URL.Path, shorten(r.Method))}
		}
	}
	if r.Header.Get("Upgrade") != "" {
		return e, refuse(http.StatusNotImplemented, "upgrade_not_supported", "This gateway does not pass on WebSockets. Use the HTTP API.")
	}
	return e, nil
}

// spokenBy tells the dialect of a path that is not in the table.
func spokenBy(r *http.Request, rest string) Dialect {
	if strings.HasPrefix(rest, "/messages/") || r.Header.Get("Anthropic-Version") != "" {
		return Anthropic
	}
	return OpenAI
}

// harmless reports whether the request changes nothing at a backend, or is a
// model call: it may be sent again after a backend has seen it.
func (e *endpoint) harmless(method string) bool {
	return e.call || method == http.MethodGet || method == http.MethodHead
}

// shorten makes caller-supplied text fit for a message.
func shorten(s string) string {
	const most = 100
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
