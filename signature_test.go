package fusebox

import (
	"encoding/json"
	"strings"
	"testing"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestSignatureTellsCallsApart(t *testing.T) {
	tests := []struct {
		name string
		a, b any
		o    SignatureOptions
		same bool
	}{
		{"order of members", raw(`{"a":1,"b":2}`), raw(`{"b":2, "a":1}`), SignatureOptions{}, true},
		{"a Go value and its JSON", map[string]any{"id": 4521}, raw(`{"id":4521}`), SignatureOptions{}, true},
		{"one number, three spellings", raw(`[1,1.0,1e0]`), raw(`[1.00,10e-1,0.1E+1]`), SignatureOptions{}, true},
		{"zero has no sign", raw(`{"n":-0.0}`), raw(`{"n":0}`), SignatureOptions{}, true},
		{"digits beyond 2^53", raw(`{"id":9007199254740993}`), raw(`{"id":9007199254740992}`), SignatureOptions{}, false},
		{"trailing zeros are value", raw(`{"id":10}`), raw(`{"id":100}`), SignatureOptions{}, false},
		{"sign", raw(`{"n":-5}`), raw(`{"n":5}`), SignatureOptions{}, false},
		{"a number is no string", raw(`{"id":1}`), raw(`{"id":"1"}`), SignatureOptions{}, false},
		{"null is a value", raw(`{"id":null}`), raw(`{"id":""}`), SignatureOptions{}, false},
		{"T6: digits are identity", raw(`{"pr":1395}`), raw(`{"pr":1394}`), SignatureOptions{}, false},
		{"order in a list", raw(`{"l":[1,2]}`), raw(`{"l":[2,1]}`), SignatureOptions{}, false},
		{"nesting", raw(`{"a":{"b":1}}`), raw(`{"a":[{"b":1}]}`), SignatureOptions{}, false},
		{"texts do not run together", raw(`{"a":"bc","d":""}`), raw(`{"a":"b","cd":""}`), SignatureOptions{}, false},
		{"absent, null and empty", nil, raw(`{}`), SignatureOptions{}, true},
		{"null", raw(`null`), raw(``), SignatureOptions{}, true},
		{"the last of equal members counts", raw(`{"a":1,"a":2}`), raw(`{"a":2}`), SignatureOptions{}, true},
		{"_meta never", raw(`{"a":1,"_meta":{"progressToken":7}}`), raw(`{"a":1}`), SignatureOptions{}, true},
		{"noise, snake", raw(`{"a":1,"request_id":"x"}`), raw(`{"a":1,"request_id":"y"}`), SignatureOptions{}, true},
		{"noise, camel", raw(`{"a":1,"requestId":"x"}`), raw(`{"a":1}`), SignatureOptions{}, true},
		{"noise, kebab and deep", raw(`{"a":{"b":1,"X-Request-ID":"x"}}`), raw(`{"a":{"b":1}}`), SignatureOptions{}, true},
		{"a name that only contains noise", raw(`{"nonces":1}`), raw(`{"nonces":2}`), SignatureOptions{}, false},
		{"an id is no noise", raw(`{"id":1}`), raw(`{"id":2}`), SignatureOptions{}, false},
		{"ignored by name", raw(`{"a":1,"sentAt":1}`), raw(`{"a":1,"sentAt":2}`), SignatureOptions{Ignore: []string{"sent_at"}}, true},
		{"ignored by pointer", raw(`{"meta":{"at":1,"x":1}}`), raw(`{"meta":{"at":2,"x":1}}`), SignatureOptions{Ignore: []string{"/meta/at"}}, true},
		{"a pointer is exact", raw(`{"at":1}`), raw(`{"at":2}`), SignatureOptions{Ignore: []string{"/meta/at"}}, false},
		{"a pointer into a list", raw(`{"l":[1,9]}`), raw(`{"l":[1,8]}`), SignatureOptions{Ignore: []string{"/l/1"}}, true},
		{"an escaped pointer", raw(`{"a/b":1}`), raw(`{"a/b":2}`), SignatureOptions{Ignore: []string{"/a~1b"}}, true},
		{"identify by pointer", raw(`{"id":1,"q":"x"}`), raw(`{"id":1,"q":"y"}`), SignatureOptions{Identify: []string{"/id"}}, true},
		{"identify tells apart", raw(`{"id":1,"q":"x"}`), raw(`{"id":2,"q":"x"}`), SignatureOptions{Identify: []string{"/id"}}, false},
		{"identify by name", raw(`{"a":{"id":1},"q":"x"}`), raw(`{"a":{"id":1},"q":"y"}`), SignatureOptions{Identify: []string{"id"}}, true},
		{"identify in a list", raw(`{"l":[{"id":1,"q":1}]}`), raw(`{"l":[{"id":2,"q":1}]}`), SignatureOptions{Identify: []string{"/l/0/id"}}, false},
		{"identify beats noise", raw(`{"request_id":1}`), raw(`{"request_id":2}`), SignatureOptions{Identify: []string{"request_id"}}, false},
		{"identify what is not there", raw(`{"q":1}`), raw(`{"q":2}`), SignatureOptions{Identify: []string{"/id"}}, true},
		{"not JSON", raw(`{"a":`), raw(`{"a": `), SignatureOptions{}, false},
		{"two values are not JSON", raw(`{} {}`), raw(`{}`), SignatureOptions{}, false},
		{"a huge exponent", raw(`{"n":1e99999999999999999999}`), raw(`{"n":1e99999999999999999998}`), SignatureOptions{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := Signature("tool/x", tt.a, tt.o), Signature("tool/x", tt.b, tt.o)
			if (a == b) != tt.same {
				t.Errorf("%v -> %s\n%v -> %s\nwant the same: %v", tt.a, a, tt.b, b, tt.same)
			}
			if len(a) != 20 {
				t.Errorf("signature %q: want 20 characters", a)
			}
		})
	}
	if Signature("tool/x", nil, SignatureOptions{}) == Signature("tool/y", nil, SignatureOptions{}) {
		t.Error("two tools have one signature")
	}
}

func TestSignatureOfWhatCannotBeMarshaledIsEmpty(t *testing.T) {
	type ring struct{ Next *ring }
	loop := &ring{}
	loop.Next = loop
	for _, args := range []any{make(chan int), func() {}, loop} {
		if got := Signature("tool/x", args, SignatureOptions{}); got != "" {
			t.Errorf("Signature of %T = %q, want none", args, got)
		}
	}
}

func TestSignatureOfHugeArguments(t *testing.T) {
	big := `{"a":"` + strings.Repeat("x", maxSignedArguments) + `"}`
	if Signature("t", raw(big), SignatureOptions{}) == Signature("t", raw(big+" "), SignatureOptions{}) {
		t.Error("arguments over the limit are not taken byte for byte")
	}
	deep := strings.Repeat("[", 200_000)
	if Signature("t", raw(deep), SignatureOptions{}) == "" {
		t.Error("deep nesting has no signature")
	}
}

func FuzzSignature(f *testing.F) {
	for _, seed := range []string{``, `null`, `{}`, `{"a":1.50e+3,"b":[true,null,"x"]}`, `{"a":`, "\xff\xfe", `[[[[`, `-0e-0`, `{"request_id":{}}`} {
		f.Add([]byte(seed))
	}
	o := SignatureOptions{Ignore: []string{"at", "/a/b", "/"}, Identify: nil}
	f.Fuzz(func(t *testing.T, b []byte) {
		first := Signature("tool/x", json.RawMessage(b), o)
		if len(first) != 20 || first != Signature("tool/x", json.RawMessage(b), o) {
			t.Fatalf("unstable signature of %q", b)
		}
		Signature("tool/x", json.RawMessage(b), SignatureOptions{Identify: []string{"a", "/a/0", "/"}})
		var v any
		if json.Valid(b) && json.Unmarshal(b, &v) == nil && !hasNumber(v) {
			if again := Signature("tool/x", v, o); again != first {
				t.Fatalf("%q: as raw JSON %s, decoded %s", b, first, again)
			}
		}
	})
}

// hasNumber reports whether decoding v into float64 may have lost digits.
func hasNumber(v any) bool {
	switch v := v.(type) {
	case float64:
		return true
	case []any:
		for _, e := range v {
			if hasNumber(e) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if hasNumber(e) {
				return true
			}
		}
	}
	return false
}

func BenchmarkSignature(b *testing.B) {
	s := newSigner(SignatureOptions{})
	args := raw(`{"id":4521,"fields":["name","status"],"request_id":"8f3a"}`)
	b.ReportAllocs()
	for b.Loop() {
		s.sign("tool/crm/lookup", args)
	}
}
