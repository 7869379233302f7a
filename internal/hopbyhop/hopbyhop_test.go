package hopbyhop

import "testing"

func TestIs(t *testing.T) {
	for _, test := range []struct {
		name       string
		connection []string
		want       bool
	}{
		{"Te", nil, true},
		{"Upgrade", []string{"keep-alive"}, true},
		{"X-Trace", nil, false},
		{"X-Trace", []string{"close, x-trace"}, true},
		{"X-Trace", []string{"close", " X-TRACE "}, true},
		{"X-Trace", []string{"x-trace-id"}, false},
	} {
		if have := Is(test.name, test.connection); have != test.want {
			t.Errorf("%s with Connection %q: %v, want %v", test.name, test.connection, have, test.want)
		}
	}
}
