package mcp

import (
	"encoding/json"
	"strconv"
	"strings"
)

// message is a JSON-RPC message as far as the guard needs it. Its fields are
// slices of the message's own bytes; nil = not there.
type message struct {
	id, method, params, result, err json.RawMessage
}

// readMessage reads the top level of a message. It reports false for what is
// none: a batch, a stray line, broken JSON. Of members with the same name the
// last counts, as for those who read it next.
func readMessage(b []byte) (m message, ok bool) {
	ok = members(b, func(key, value []byte) {
		switch string(key) {
		case "id":
			m.id = value
		case "method":
			m.method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.err = value
		}
	})
	return m, ok
}

// is reports whether the message's method is name.
func (m *message) is(name string) bool {
	if string(m.method) == `"`+name+`"` {
		return true
	}
	return len(m.method) > len(name)+2 && text(m.method) == name // some writers escape the slash
}

// isRequest reports whether the message wants an answer.
func (m *message) isRequest() bool { return m.method != nil && hasID(m.id) }

// isAnswer reports whether the message is the answer to a request.
func (m *message) isAnswer() bool { return m.method == nil && hasID(m.id) }

// hasID reports whether id is one: a string or a number, and well-formed, since
// it will be echoed.
func hasID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9') && json.Valid(id)
}

// The methods that matter here.
const (
	methodCall        = "tools/call"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodElicit      = "elicitation/create"
	methodSample      = "sampling/createMessage"
)

// toolCall is a tools/call request.
type toolCall struct {
	id        json.RawMessage // as it came, for the answer
	tool      string
	arguments json.RawMessage // what the call is for: see callArguments
	meta      json.RawMessage
}

// readCall takes a tools/call request apart. It reports false for one that
// names no tool: the server is to say what is wrong with it.
func readCall(m *message) (c toolCall, ok bool) {
	var name, arguments, responses, state json.RawMessage
	members(m.params, func(key, value []byte) {
		switch string(key) {
		case "name":
			name = value
		case "arguments":
			arguments = value
		case "inputResponses":
			responses = value
		case "requestState":
			state = value
		case "_meta":
			c.meta = value
		}
	})
	c.id, c.tool = m.id, text(name)
	c.arguments = callArguments(arguments, responses, state)
	return c, c.tool != ""
}

// callArguments is what tells one call from another. A call that goes on with
// an earlier one, by what the person answered or by the server's own state, is
// no repeat of it: these count, too.
func callArguments(arguments, responses, state json.RawMessage) json.RawMessage {
	if responses == nil && state == nil {
		return arguments
	}
	raw, err := json.Marshal(struct {
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Responses json.RawMessage `json:"inputResponses,omitempty"`
		State     json.RawMessage `json:"requestState,omitempty"`
	}{arguments, responses, state})
	if err != nil {
		return arguments
	}
	return raw
}

// text is the value of a JSON string; "" for anything else.
func text(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if plain := raw[1 : len(raw)-1]; isPlain(plain) && raw[len(raw)-1] == '"' {
		return string(plain)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// isPlain reports whether a text is spelled in JSON as it is.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// idKey is by what an id is known: two spellings of one id have the same key, 1
// and "1" have not.
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return `"` + text(id)
	}
	s := string(id)
	if strings.ContainsAny(s, ".eE") {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	return s
}

// withTool adds the tool's name to a call's arguments, for tools that share a
// circuit.
func withTool(tool string, arguments json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}{tool, arguments})
	if err != nil {
		return arguments
	}
	return raw
}
