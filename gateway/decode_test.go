package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestMembersAreFoundWithoutDecoding(t *testing.T) {
	for _, c := range []struct {
		in     string
		want   string
		closed bool
	}{
		{`{}`, "", true},
		{` { "a" : 1 , "b":[1,{"c":"}"}], "d":"\"\\" } `, `a=1 b=[1,{"c":"}"}] d="\"\\" `, true},
		{`{"a":-1.5e+3,"b":true,"c":null}`, `a=-1.5e+3 b=true c=null `, true},
		{`{"\u0061":1}`, `a=1 `, true},
		{`{"a":1,"b":"cut`, `a=1 `, false},
		{`{"a":1,}`, `a=1 `, false},
		{`{"a":1 "b":2}`, `a=1 `, false},
		{`{,"a":1}`, ``, false},
		{`{"a":nope}`, ``, false},
		{`{"a":}`, ``, false},
		{`[1]`, ``, false},
		{``, ``, false},
	} {
		got := ""
		m := members{b: []byte(c.in)}
		for {
			key, value, ok := m.next()
			if !ok {
				break
			}
			got += fmt.Sprintf("%s=%s ", key, value)
		}
		if got != c.want || m.closed != c.closed {
			t.Errorf("%s: %q, closed %v; want %q, %v", c.in, got, m.closed, c.want, c.closed)
		}
	}
}

// FuzzPeek compares what the gateway reads in place with what a full decoder
// reads, and checks that a rename changes nothing else.
func FuzzPeek(f *testing.F) {
	for _, seed := range []string{`{"model":"m","stream":true,"n":2}`, `{"model":"m`, `{"a":{"model":"x"},"model":"\u006d"}`, `{"model":1}`, `[]`, `{"model":"a","model":"b"}`, "{\"model\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := peek(body)
		if err != nil || !json.Valid(body) {
			return // what is no JSON at all is the backend's to refuse, where it is not seen here
		}
		var full map[string]json.RawMessage
		if json.Unmarshal(body, &full) != nil {
			t.Fatalf("no object: %s", body)
		}
		var model string
		json.Unmarshal(full["model"], &model)
		if model != strings.ToValidUTF8(p.model, "\ufffd") && model != p.model {
			t.Fatalf("model %q, want %q in %s", p.model, model, body)
		}
		if p.model == "" {
			return
		}
		renamed := p.rename(body, "other/"+p.model)
		if !json.Valid(renamed) {
			t.Fatalf("no JSON any more: %s", renamed)
		}
		again, err := peek(renamed)
		if err != nil || again.stream != p.stream || len(again.spans) != len(p.spans) {
			t.Fatalf("renamed: %+v, %v", again, err)
		}
		var after map[string]json.RawMessage
		json.Unmarshal(renamed, &after)
		for key, value := range full {
			if key != "model" && !bytes.Equal(after[key], value) {
				t.Fatalf("%s was changed", key)
			}
		}
	})
}

// FuzzEvents feeds a stream in pieces and whole: the events are the same.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: x\r\ndata: a\r\ndata: b\r\n\r\n: c\n\ndata:[DONE]", "\ufeffdata: bom\n\n\n\n", "data\n\ndata: \n\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	read := func(stream []byte, step int) (all []string) {
		var s events
		var buf []byte
		for len(stream) > 0 {
			n := min(step, len(stream))
			buf, stream = append(buf, stream[:n]...), stream[n:]
			for {
				e, ok := s.next(buf)
				if !ok {
					break
				}
				all = append(all, fmt.Sprintf("%s|%s", e.name, e.data))
			}
			buf = append(buf[:0], buf[s.begin:]...)
			s.drop(s.begin)
		}
		if e, ok := s.last(buf); ok {
			all = append(all, fmt.Sprintf("%s|%s", e.name, e.data))
		}
		return all
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		whole, pieces := read(stream, len(stream)+1), read(stream, int(step)+1)
		if fmt.Sprint(whole) != fmt.Sprint(pieces) {
			t.Fatalf("whole %q, in pieces %q", whole, pieces)
		}
		for format := formatOther; format <= formatMessages; format++ {
			r := reading{format: format, answers: 1}
			for _, e := range whole {
				name, data, _ := strings.Cut(e, "|")
				r.read(event{name: []byte(name), data: []byte(data)})
			}
		}
	})
}

// FuzzJudge looks for errors that no provider has thought of.
func FuzzJudge(f *testing.F) {
	for _, seed := range []string{`{"error":{"code":"insufficient_quota","message":"m"}}`, `{"error":"text"}`, `[{"error":{"code":400,"details":[{"reason":"API_KEY_INVALID"}]}}]`,
		`{"type":"error","error":{"type":"overloaded_error"}}`, `{"response":{"error":{"code":"server_error"}}}`, `{"error":{`, `[`} {
		f.Add(429, []byte(seed), "5")
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, after string) {
		now := epoch
		v := judge(status, map[string][]string{"Retry-After": {after}}, body, now)
		if at := v.result.NotBefore; !at.IsZero() && (!at.After(now) || at.Sub(now) > fusebox.MaxThrottle) {
			t.Fatalf("asked to wait until %v, now is %v", at, now)
		}
		if v.result.Err == nil {
			t.Fatal("no words")
		}
	})
}

func TestEventsThatHoldNothingOfTheAnswer(t *testing.T) {
	for _, c := range []struct {
		format format
		name   string
		data   string
		want   sign
	}{
		{formatChat, "", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, signPreamble},
		{formatChat, "", `{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}`, signPreamble},
		{formatChat, "", `{"choices":[],"prompt_filter_results":[{}]}`, signPreamble},
		{formatChat, "", ``, signPreamble},
		{formatChat, "", `{"choices":[{"index":0,"delta":{"content":"x"}}]}`, signContent},
		{formatChat, "", `{"choices":[{"index":0,"delta":{"reasoning_content":"x"}}]}`, signContent},
		{formatChat, "", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}`, signContent},
		{formatChat, "", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, signContent},
		{formatChat, "", `[DONE]`, signEnd},
		{formatChat, "", `{"error":{"message":"x"}}`, signError},
		{formatChat, "", `{"object":"error","message":"x"}`, signError},
		{formatChat, "error", `{"message":"x"}`, signError},
		{formatChat, "", `{"choices":[{"index`, signMalformed},
		{formatText, "", `{"choices":[{"index":0,"text":"","finish_reason":null}]}`, signPreamble},
		{formatText, "", `{"choices":[{"index":0,"text":"x","finish_reason":null}]}`, signContent},
		{formatMessages, "", `{"type":"message_start"}`, signPreamble},
		{formatMessages, "ping", `{"type":"ping"}`, signPreamble},
		{formatMessages, "", `{"type":"content_block_delta","delta":{"text":"x"}}`, signContent},
		{formatMessages, "", `{"type":"message_stop"}`, signEnd},
		{formatMessages, "", `{"type":"error","error":{}}`, signError},
		{formatResponses, "response.created", `{"type":"response.created"}`, signPreamble},
		{formatResponses, "response.output_text.delta", `{"delta":"x"}`, signContent},
		{formatResponses, "", `{"type":"response.incomplete"}`, signEnd},
		{formatResponses, "", `{"type":"response.failed"}`, signError},
		{formatResponses, "", `oops`, signMalformed},
		{formatOther, "", `anything`, signContent},
	} {
		r := reading{format: c.format, answers: 1}
		if got := r.read(event{name: []byte(c.name), data: []byte(c.data)}); got != c.want {
			t.Errorf("format %d, %s %s: %d, want %d", c.format, c.name, c.data, got, c.want)
		}
	}
}

func TestChunksOfEveryShapeAreReadInOnePass(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       sign
		finished   uint64
	}{
		{"content", `{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":null}`, signContent, 0},
		{"white space everywhere", ` { "choices" : [ { "delta" : { "content" : "x" , "role":"a" } , "index" : 3 , "finish_reason" : "stop" } ] } `, signContent, 8},
		{"escaped keys", `{"choic\u0065s":[{"\u0064elta":{"c\u006fntent":"x"}}]}`, signContent, 0},
		{"a delta that is null, then an error", `{"choices":[{"delta":null}],"error":{"message":"x"}}`, signError, 0},
		{"choices that are no list", `{"choices":{"delta":{"content":"x"}}}`, signPreamble, 0},
		{"choices that are no objects", `{"choices":[5,"]",[{"delta":{"content":"x"}}]],"object":"error"}`, signError, 0},
		{"a choice that is odd in a way that the backend's parser may mind", `{"choices":[{"delta" {"content":"x"}},{"index":1,"finish_reason":"stop"}]}`, signContent, 2},
		{"nesting in the delta", `{"choices":[{"delta":{"tool_calls":[{"f":{"a":"}]"}}]}}]}`, signContent, 0},
		{"cut off within choices", `{"choices":[{"delta":{"content":"x"}}`, signMalformed, 0},
		{"cut off after choices", `{"choices":[{"delta":{"content":"x"}}]`, signMalformed, 0},
		{"cut off within a key", `{"choices":[{"del`, signMalformed, 0},
		{"cut off within a key's escape", `{"choices\`, signMalformed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reading{format: formatChat, answers: 1}
			if got := r.read(event{data: []byte(c.data)}); got != c.want || r.finished != c.finished {
				t.Errorf("sign %d, finished %b; want %d, %b", got, r.finished, c.want, c.finished)
			}
		})
	}
}

func TestReadingAStreamAllocatesNothing(t *testing.T) {
	chunk := []byte(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"some words, no more"},"finish_reason":null}]}` + "\n\n")
	r := reading{format: formatChat, answers: 1}
	if n := testing.AllocsPerRun(100, func() {
		var s events
		e, ok := s.next(chunk)
		if !ok || r.read(e) != signContent {
			t.Fatal("no content")
		}
	}); n != 0 {
		t.Fatalf("%v allocations an event", n)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"gpt-*", "gpt-5", true}, {"gpt-*", "o3", false}, {"a*c*e", "abcde", true},
		{"a*c*e", "ace", true}, {"a*c*e", "aec", false}, {"*-mini", "gpt-5-mini", true}, {"*-mini", "gpt-5", false}, {"exact", "exact", true}, {"ab*ba", "aba", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
	models := map[string]string{"*": "all", "gpt-*": "some", "gpt-5": "one", "*-mini": "small"}
	for name, want := range map[string]string{"gpt-5": "one", "gpt-4": "some", "o3": "all", "gpt-5-mini": "small"} {
		if got := mapped(models, name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
	if got := mapped(nil, "x"); got != "x" {
		t.Errorf("x becomes %s", got)
	}
}
