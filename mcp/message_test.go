package mcp

import (
	"encoding/json"
	"testing"
)

func TestReadMessage(t *testing.T) {
	for _, test := range []struct {
		name, in        string
		request, answer bool
	}{
		{"request", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, true, false},
		{"request with an empty id", `{"jsonrpc":"2.0","id":"","method":"ping"}`, true, false},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, false, false},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"tools/call"}`, false, false},
		{"id that cannot be echoed", `{"jsonrpc":"2.0","id":1x,"method":"tools/call"}`, false, false},
		{"id of another kind", `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call"}`, false, false},
		{"result", `{"jsonrpc":"2.0","id":-7,"result":{}}`, false, true},
		{"error", `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, ok := readMessage([]byte(test.in))
			if !ok || m.isRequest() != test.request || m.isAnswer() != test.answer {
				t.Errorf("have %v, request %v, answer %v", ok, m.isRequest(), m.isAnswer())
			}
		})
	}
}

func TestMethodsAreKnownHoweverTheyAreWritten(t *testing.T) {
	for in, want := range map[string]bool{`"tools/call"`: true, `"tools\/call"`: true, `"tools\u002fcall"`: true, `"tools/list"`: false, `"tools/calls"`: false, `7`: false} {
		m := message{method: json.RawMessage(in)}
		if m.is(methodCall) != want {
			t.Errorf("%s: have %v", in, !want)
		}
	}
}

func TestIdsAreComparedByValueAndKind(t *testing.T) {
	for _, same := range [][2]string{{`1`, `1`}, {`"a"`, `"\u0061"`}, {`1`, `1.0`}, {`100`, `1e2`}, {`9007199254740993`, `9007199254740993`}} {
		if idKey(json.RawMessage(same[0])) != idKey(json.RawMessage(same[1])) {
			t.Errorf("%s is not %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{`1`, `"1"`}, {`0`, `""`}, {`1`, `2`}, {`9007199254740993`, `9007199254740992`}} {
		if idKey(json.RawMessage(other[0])) == idKey(json.RawMessage(other[1])) {
			t.Errorf("%s is %s", other[0], other[1])
		}
	}
}

func TestReadCall(t *testing.T) {
	for _, test := range []struct {
		name, params, tool, arguments string
		ok                            bool
	}{
		{"call", `{"name":"echo","arguments":{"m":1},"_meta":{"progressToken":7}}`, "echo", `{"m":1}`, true},
		{"without arguments", `{"name":"echo"}`, "echo", ``, true},
		{"one that goes on", `{"name":"echo","arguments":{"m":1},"inputResponses":{"a":{}},"requestState":"s"}`, "echo",
			`{"arguments":{"m":1},"inputResponses":{"a":{}},"requestState":"s"}`, true},
		{"without a name", `{"arguments":{}}`, "", `{}`, false},
		{"with a name that is none", `{"name":7}`, "", ``, false},
		{"list of parameters", `["echo"]`, "", ``, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, ok := readCall(&message{id: json.RawMessage("1"), params: json.RawMessage(test.params)})
			if ok != test.ok || c.tool != test.tool || string(c.arguments) != test.arguments {
				t.Errorf("have %v %q %s", ok, c.tool, c.arguments)
			}
		})
	}
}

// FuzzMessage: whatever comes, reading it does no harm, and what the guard says
// to a call is one line of JSON with the call's id.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"x","arguments":{}}}`))
	f.Add([]byte(`{"id":1e400,"method":"tools\/call","params":{"name":"\ud800"}}`))
	f.Add([]byte(`{"id":1,"result":{"isError":true,"content":[{"type":"text","text":"MCP error -32602: no"}]}}`))
	f.Add([]byte(`{"id":1,"error":{"code":"x","message":3}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, ok := readMessage(in)
		if !ok {
			return
		}
		judge(&m)
		judgeCancel(m.params)
		if !m.isRequest() {
			return
		}
		readCall(&m)
		said := failedAnswer(m.id, "words", overdue(1).tool)
		var back struct{ ID json.RawMessage }
		if err := json.Unmarshal(said, &back); err != nil || idKey(back.ID) != idKey(m.id) {
			t.Errorf("id %s came back as %s: %v", m.id, back.ID, err)
		}
	})
}
