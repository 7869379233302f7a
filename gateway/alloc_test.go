package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// frugal is an upstream that allocates nothing when it answers.
type frugal struct {
	net.Listener
	body   []byte // of each request
	answer atomic.Pointer[script]
}

// script is what is written to a request: pieces are one, so many times.
type script struct {
	header string
	piece  []byte
	times  int
	tail   []byte
}

// streams returns a script of a stream of at least so many bytes, and how many they are.
func streams(least int) (s *script, size int) {
	event := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	s = &script{piece: []byte(strings.Repeat(event, 100)), tail: []byte(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")}
	s.times = least/len(s.piece) + 1
	size = s.times*len(s.piece) + len(s.tail)
	s.header = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", size)
	return s, size
}

func newFrugal(t *testing.T, body string) *frugal {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u := &frugal{Listener: l, body: []byte(body)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(conn)
		}
	}()
	return u
}

func (u *frugal) serve(conn net.Conn) {
	defer conn.Close()
	buf, n := make([]byte, 16<<10), 0
	for {
		got, err := conn.Read(buf[n:])
		if err != nil {
			return
		}
		if n += got; !bytes.HasSuffix(buf[:n], u.body) {
			continue
		}
		n = 0
		s := u.answer.Load()
		io.WriteString(conn, s.header)
		for range s.times {
			if _, err := conn.Write(s.piece); err != nil {
				return
			}
		}
		conn.Write(s.tail)
	}
}

// forgetful is a client's connection that keeps nothing of an answer.
type forgetful struct {
	header http.Header
	status int
	bytes  int
}

func (f *forgetful) Header() http.Header    { return f.header }
func (f *forgetful) WriteHeader(status int) { f.status = status }
func (f *forgetful) Flush()                 {}

func (f *forgetful) Write(b []byte) (int, error) {
	f.bytes += len(b)
	return len(b), nil
}

// ask returns what sends the request once, to a gateway before the upstream.
func (u *frugal) ask(t *testing.T) func(wantBytes int) {
	t.Helper()
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	g, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{{Name: "a", URL: "http://" + u.Addr().String() + "/v1", Dialect: gateway.OpenAI}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return func(wantBytes int) {
		r, err := http.NewRequest("POST", "http://127.0.0.1/v1/chat/completions", bytes.NewReader(u.body))
		if err != nil {
			t.Fatal(err)
		}
		w := forgetful{header: http.Header{}}
		g.ServeHTTP(&w, r)
		if w.status != http.StatusOK || w.bytes != wantBytes {
			t.Fatalf("status %d, %d bytes of %d", w.status, w.bytes, wantBytes)
		}
	}
}

// allocated is what this process allocates while f runs.
func allocated(f func()) (count, size int64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs), int64(after.TotalAlloc - before.TotalAlloc)
}

// least is the best of some runs in what f allocates, once connections and pools
// are there: other goroutines of this process allocate, too. It makes no more
// runs than it takes to be good enough.
func least(f func(), enough func(count, size int64) bool) (count, size int64) {
	for run := range 5 {
		if n, m := allocated(f); run == 0 || n < count {
			count, size = n, m
		}
		if run > 0 && enough(count, size) {
			break
		}
	}
	return count, size
}

// A stream of 30 MB, some 200,000 events, allocates what one of 1 MB does.
func TestALongStreamAllocatesNoMoreThanAShortOne(t *testing.T) {
	u := newFrugal(t, streamedChat)
	ask := u.ask(t)
	stream := func(megabytes int) func() {
		s, size := streams(megabytes << 20)
		return func() {
			u.answer.Store(s)
			ask(size)
		}
	}
	count, size := least(stream(1), func(int64, int64) bool { return false })
	fits := func(n, m int64) bool { return n <= count+200 && m <= size+128<<10 }
	if n, m := least(stream(30), fits); !fits(n, m) {
		t.Errorf("%d allocations of %d bytes for 1 MB, %d of %d for 30 MB", count, size, n, m)
	}
}

// mostAllocations of a request, in the gateway, in net/http's transport and in
// this test: a fifth more than the 65 that it took when this was written.
const mostAllocations = 78

func TestARequestAllocatesLittle(t *testing.T) {
	answer := chatAnswer("a few words")
	plain := &script{header: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(answer)), tail: []byte(answer)}
	streamed, size := streams(1)
	for _, c := range []struct {
		name, body string
		script     *script
		bytes      int // of the answer
	}{
		{"whole", plainChat, plain, len(answer)},
		{"streamed", streamedChat, streamed, size},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newFrugal(t, c.body)
			u.answer.Store(c.script)
			ask := u.ask(t)
			n, _ := least(func() { ask(c.bytes) }, func(n, _ int64) bool { return n <= mostAllocations })
			if n > mostAllocations {
				t.Errorf("%d allocations; at most %d", n, mostAllocations)
			}
		})
	}
}
