package mcp_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// frugalServer answers every request with the same bytes and allocates nothing
// for it. It returns its address.
func frugalServer(t testing.TB, request, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer, n := make([]byte, 16<<10), 0
				for {
					got, err := conn.Read(buffer[n:])
					if err != nil {
						return
					}
					if n += got; strings.HasSuffix(string(buffer[max(0, n-len(request)):n]), request) {
						n = 0
						io.WriteString(conn, answer)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// forgetful is a client that keeps nothing of an answer.
type forgetful struct {
	header http.Header
	status int
	bytes  int
	denied bool
}

func (f *forgetful) Header() http.Header    { return f.header }
func (f *forgetful) WriteHeader(status int) { f.status = status }
func (f *forgetful) Flush()                 {}

func (f *forgetful) Write(b []byte) (int, error) {
	f.bytes += len(b)
	f.denied = f.denied || bytes.Contains(b, []byte("fusebox-go/denied"))
	return len(b), nil
}

// calls returns what makes one call through a guard whose server answers so, and
// tells whether it was denied.
func calls(t testing.TB, answer string) func() (denied bool) {
	t.Helper()
	address := frugalServer(t, lookup, answer)
	handler, err := newGuard(t, newBox(t, fusebox.Config{}), mcp.Config{}).Handler(mcp.HTTP{URL: "http://" + address + "/mcp", Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(lookup))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mcp-Session-Id", "session")
		w := forgetful{header: http.Header{}}
		handler.ServeHTTP(&w, r)
		if w.status != http.StatusOK || w.bytes == 0 {
			t.Fatalf("status %d, %d bytes", w.status, w.bytes)
		}
		return w.denied
	}
}

const (
	gladResult = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`
	sadResult  = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no such file"}],"isError":true}}`
)

func wholeAnswer(result string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(result), result)
}

func streamedAnswer(result string) string {
	event := "event: message\ndata: " + result + "\n\n"
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(event), event)
}

func BenchmarkHTTP(b *testing.B) {
	for _, way := range []struct{ name, answer string }{
		{"whole", wholeAnswer(gladResult)}, {"streamed", streamedAnswer(gladResult)}, {"denied", wholeAnswer(sadResult)},
	} {
		b.Run(way.name, func(b *testing.B) {
			call := calls(b, way.answer)
			for range 10 {
				call()
			}
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// mallocs is how often this process allocates while f runs: the least of some
// runs, since others allocate, too, and pools fill.
func mallocs(f func()) uint64 {
	var least uint64
	for run := range 20 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; run == 0 || n < least {
			least = n
		}
	}
	return least
}

// What a call may allocate, in the guard, in net/http's transport and in this
// test: a fifth more than it took when this was written.
func TestACallAllocatesLittle(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		most         uint64
	}{
		{"whole", wholeAnswer(gladResult), 112},
		{"streamed", streamedAnswer(gladResult), 125},
		{"denied", wholeAnswer(sadResult), 93},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := calls(t, c.answer)
			for range 5 { // connections and pools, and failures for the denial
				call()
			}
			if denied := call(); denied != (c.name == "denied") {
				t.Fatalf("denied: %v", denied)
			}
			if n := mallocs(func() { call() }); n > c.most {
				t.Errorf("%d allocations, want at most %d", n, c.most)
			}
		})
	}
}
