package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// refusal is an answer that the gateway gives itself, in the client's dialect.
type refusal struct {
	status  int
	code    string // a short name of what is wrong, for programs
	message string
	allow   string // 405: the method that would do
	final   bool   // SDKs must not try again
	wait    time.Duration
	denial  *fusebox.Denial // what refused, if a circuit did
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, code: code, message: message}
}

// write sends the refusal.
func (r *refusal) write(w http.ResponseWriter, d Dialect) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	if r.wait > 0 {
		h.Set("Retry-After", strconv.Itoa(fusebox.Seconds(r.wait)))
	}
	if r.final {
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(r.status)
	w.Write(r.body(d))
}

// body returns the error in the dialect's shape, and what refused beside it.
func (r *refusal) body(d Dialect) []byte {
	kind := errorType(d, r.status)
	var shape any
	if d == Anthropic {
		shape = anthropicError{Type: "error", Error: anthropicDetail{Type: kind, Message: r.message}, Denied: r.denial}
	} else {
		shape = openAIError{Error: openAIDetail{Message: r.message, Type: kind, Code: r.code}, Denied: r.denial}
	}
	return marshal(shape)
}

type openAIError struct {
	Error  openAIDetail    `json:"error"`
	Denied *fusebox.Denial `json:"denied,omitempty"`
}

type openAIDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

type anthropicError struct {
	Type   string          `json:"type"`
	Error  anthropicDetail `json:"error"`
	Denied *fusebox.Denial `json:"denied,omitempty"`
}

type anthropicDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// errorType is the word that a dialect has for a status.
func errorType(d Dialect, status int) string {
	if d == Anthropic {
		switch status {
		case http.StatusUnauthorized:
			return "authentication_error"
		case http.StatusForbidden:
			return "permission_error"
		case http.StatusNotFound:
			return "not_found_error"
		case http.StatusRequestEntityTooLarge:
			return "request_too_large"
		case http.StatusTooManyRequests:
			return "rate_limit_error"
		case http.StatusServiceUnavailable:
			return "overloaded_error"
		case http.StatusGatewayTimeout:
			return "timeout_error"
		}
		if status < 500 {
			return "invalid_request_error"
		}
		return "api_error"
	}
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}

// errorEvent is how a stream of the format says that it has broken. sequence is
// the number of the event, where the format counts them.
func errorEvent(f format, message string, sequence int) []byte {
	var b bytes.Buffer
	switch f {
	case formatMessages:
		b.WriteString("event: error\ndata: ")
		b.Write(marshal(anthropicError{Type: "error", Error: anthropicDetail{Type: "api_error", Message: message}}))
	case formatResponses:
		b.WriteString("event: error\ndata: ")
		b.Write(marshal(responsesError{Type: "error", Code: "server_error", Message: message, Sequence: sequence}))
	default:
		b.WriteString("data: ")
		b.Write(marshal(openAIError{Error: openAIDetail{Message: message, Type: "server_error", Code: "stream_broken"}}))
	}
	b.WriteString("\n\n")
	return b.Bytes()
}

type responsesError struct {
	Type     string  `json:"type"`
	Code     string  `json:"code"`
	Message  string  `json:"message"`
	Param    *string `json:"param"`
	Sequence int     `json:"sequence_number"`
}

// marshal is json.Marshal without the escaping that only HTML needs. The
// shapes above always have a JSON form.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte(`{"error":{"message":"internal error"}}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
