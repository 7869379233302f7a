package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks reads at most n bytes at a time.
type chunks struct {
	io.Reader
	n int
}

func (c chunks) Read(p []byte) (int, error) { return c.Reader.Read(p[:min(len(p), c.n)]) }

const twoEvents = "event: message\r\nid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":{}}\r\n\r\n: ping\n\ndata: {\"id\":2,\"result\":{}}\n\n"

func TestEventsPassOrNot(t *testing.T) {
	for n := 1; n < len(twoEvents); n++ {
		var seen []string
		e := newEvents(io.NopCloser(chunks{strings.NewReader(twoEvents), n}), func(m *message) bool {
			seen = append(seen, string(m.id))
			return string(m.id) != "1"
		}, nil)
		got, err := io.ReadAll(e)
		if err != nil || string(got) != ": ping\n\ndata: {\"id\":2,\"result\":{}}\n\n" || strings.Join(seen, " ") != "1 2" {
			t.Errorf("by %d bytes: have %q, %v, %v", n, got, seen, err)
		}
	}
}

func TestTheEndOfAStreamIsTold(t *testing.T) {
	broken := errors.New("reset")
	for _, test := range []struct {
		name, in  string
		err       error
		say, want string
		resumable bool
	}{
		{"clean, nothing to say", twoEvents, io.EOF, "", twoEvents, true},
		{"clean", "data: {}\n\ndata: {", io.EOF, "data: x\n\n", "data: {}\n\ndata: x\n\n", false},
		{"broken", "data: {}\n\ndata: {", broken, "data: x\n\n", "data: {}\n\ndata: x\n\n", false},
		{"broken, nothing to say", "data: {", broken, "", "data: {", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			told := 0
			body := io.MultiReader(strings.NewReader(test.in), iotest.ErrReader(test.err))
			e := newEvents(io.NopCloser(body), func(*message) bool { return true }, func(err error, resumable bool) []byte {
				told++
				if (err != nil) != (test.err == broken) || resumable != test.resumable {
					t.Errorf("told %v, resumable %v", err, resumable)
				}
				if test.say == "" {
					return nil
				}
				return []byte(test.say)
			})
			got, err := io.ReadAll(e)
			if string(got) != test.want || told != 1 || (err != nil) != (test.err == broken && test.say == "") {
				t.Errorf("have %q, %v, told %d times", got, err, told)
			}
		})
	}
}

// FuzzEvents: whatever the stream and however it comes in, what passes is what
// came, byte for byte.
func FuzzEvents(f *testing.F) {
	f.Add(twoEvents, 3)
	f.Add("data: {}\r\rdata:\n\r\n\n\r", 1)
	f.Add(":\n:\r\n\r\ndata", 2)
	f.Fuzz(func(t *testing.T, in string, n int) {
		if n < 1 {
			return
		}
		e := newEvents(io.NopCloser(chunks{strings.NewReader(in), n}), func(*message) bool { return true }, nil)
		if got, err := io.ReadAll(e); err != nil || string(got) != in {
			t.Errorf("%q by %d bytes: have %q, %v", in, n, got, err)
		}
	})
}
