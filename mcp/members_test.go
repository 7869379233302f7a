package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMembers(t *testing.T) {
	for _, test := range []struct {
		name, in, want string
		ok             bool
	}{
		{"empty", `{}`, "", true},
		{"members", `{"a":1,"b":"x","c":[1,{"d":2}],"e":null}`, `a=1 b="x" c=[1,{"d":2}] e=null `, true},
		{"white space", " {\t\"a\" : 1 ,\r\n\"b\":true } \r\n", `a=1 b=true `, true},
		{"quotes and braces in strings", `{"a":"}\"{[","b":1}`, `a="}\"{[" b=1 `, true},
		{"escaped key", `{"\u0061b":1}`, `ab=1 `, true},
		{"the same key twice", `{"a":1,"a":2}`, `a=1 a=2 `, true},
		{"deep", `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "a=" + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + " ", true},
		{"batch", `[{"a":1}]`, "", false},
		{"text", `Server listening on stdio`, "", false},
		{"nothing", ``, "", false},
		{"torn", `{"a":"x`, "", false},
		{"torn key", `{"a`, "", false},
		{"no value", `{"a":}`, "", false},
		{"two values", `{"a":1}{"b":2}`, "a=1 ", false},
		{"closed too often", `{"a":]}`, "", false},
		{"no comma", `{"a":1 "b":2}`, "a=1 ", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got strings.Builder
			ok := members([]byte(test.in), func(key, value []byte) {
				got.WriteString(string(key) + "=" + string(value) + " ")
			})
			if ok != test.ok || got.String() != test.want {
				t.Errorf("have %v %.100q, want %v %.100q", ok, got.String(), test.ok, test.want)
			}
		})
	}
}

// FuzzMembers holds the reader to encoding/json: what that reads, this reads
// alike; what that refuses must do no harm.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":{"c":"}"},"d":[1e5,-0.1]}`, `{"a":"\\\"","":null}`, ` {"\ud83d\ude00": true } `, `[1]`, `{"a":1,}`, `{"a":"\`, "{\"a\":1e+5\n}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := map[string]json.RawMessage{}
		ok := members(in, func(key, value []byte) { got[string(key)] = bytes.Clone(value) })
		var want map[string]json.RawMessage
		if !utf8.Valid(in) || json.Unmarshal(in, &want) != nil || want == nil {
			return
		}
		if !ok || len(got) != len(want) {
			t.Fatalf("%q: have %v %q, want %q", in, ok, got, want)
		}
		for key, value := range want {
			if !bytes.Equal(got[key], value) {
				t.Errorf("%q: %q is %q, want %q", in, key, got[key], value)
			}
		}
	})
}
