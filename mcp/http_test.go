package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// remote is a server over HTTP that does as its test says, behind a guard.
type remote struct {
	t       *testing.T
	box     *fusebox.Box
	url     string // of the guard
	mu      sync.Mutex
	reached []string // bodies
}

// remoteServer guards a server that answers with h.
func remoteServer(t *testing.T, o options, h http.HandlerFunc) *remote {
	t.Helper()
	r := &remote{t: t, box: newBox(t, o.box)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.reached = append(r.reached, string(body))
		r.mu.Unlock()
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		h(w, req)
	}))
	t.Cleanup(upstream.Close)
	t.Cleanup(upstream.CloseClientConnections)
	r.url = guardOf(t, newGuard(t, r.box, o.mcp), upstream.URL+"/mcp")
	return r
}

// guardOf serves a guard of a URL and returns its own.
func guardOf(t *testing.T, guard *mcp.Guard, url string) string {
	t.Helper()
	handler, err := guard.Handler(mcp.HTTP{URL: url, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(handler)
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	return front.URL + "/mcp"
}

func (r *remote) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reached)
}

// post posts a message and returns the status and the whole response.
func (r *remote) post(body string, header ...string) (int, string) {
	r.t.Helper()
	resp := r.open(http.MethodPost, body, header...)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

func (r *remote) open(method, body string, header ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func callBody(id any, tool, text string) string {
	raw, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, raw, tool, text)
}

// answers is a server that answers every call in one way: as JSON, or as a
// stream whose answer comes after a notification.
func answers(stream bool, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID json.RawMessage }
		json.NewDecoder(r.Body).Decode(&m)
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		if !stream {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, ": hello\n\nevent: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\ndata: %s\n\n", answer)
	}
}

const failing = `{"isError":true,"content":[{"type":"text","text":"no such city"}]}`

func TestT1OverHTTP(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %v", stream), func(t *testing.T) {
			r := remoteServer(t, options{}, answers(stream, failing))
			for i := range 20 {
				status, body := r.post(callBody(i, "weather", "Atlantis"))
				want := "no such city"
				if i >= 3 {
					want = "io.github.fusebox-go/denied"
				}
				if status != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, fmt.Sprintf(`"id":%d,`, i)) {
					t.Fatalf("call %d: %d %s", i, status, body)
				}
			}
			if n := r.count(); n != 3 {
				t.Errorf("%d calls reached the server, want 3", n)
			}
		})
	}
}

func TestRunsOverHTTP(t *testing.T) {
	meta := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather","arguments":{},"_meta":` + meta + `}}`
	}
	trace := func(id, span string) string { return meta(`{"traceparent":"00-` + id + `-` + span + `-01"}`) }
	const one, two = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"
	header := meta(`{"io.github.fusebox-go/run":"other","traceparent":"00-` + two + `-00f067aa0ba902b7-01"}`)
	for _, test := range []struct {
		name         string
		given        string
		first, other string // the run of the first fails three times; the other's is judged by itself, or not
		headers      [2][]string
		same         bool
	}{
		{"launch beats all", "r", header, meta(`{}`), [2][]string{{"Fusebox-Run", "a"}, {"Fusebox-Run", "b"}}, true},
		{"header beats _meta", "", header, meta(`{}`), [2][]string{{"Fusebox-Run", "a"}, {"Fusebox-Run", "a"}}, true},
		{"other header", "", meta(`{}`), meta(`{}`), [2][]string{{"Fusebox-Run", "a"}, {"Fusebox-Run", "b"}}, false},
		{"_meta beats the trace", "", header, meta(`{"io.github.fusebox-go/run":"other"}`), [2][]string{}, true},
		{"one trace is one run", "", trace(one, "00f067aa0ba902b7"), trace(one, "b7ad6b7169203331"), [2][]string{}, true},
		{"two traces are two", "", trace(one, "00f067aa0ba902b7"), trace(two, "00f067aa0ba902b7"), [2][]string{}, false},
		{"two sessions are two", "", meta(`{}`), meta(`{}`), [2][]string{{"Mcp-Session-Id", "a"}, {"Mcp-Session-Id", "b"}}, false},
		{"without anything it is the process", "", meta(`{}`), meta(`{"traceparent":"odd"}`), [2][]string{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := remoteServer(t, options{mcp: mcp.Config{Run: test.given}}, answers(false, failing))
			for range 3 {
				r.post(test.first, test.headers[0]...)
			}
			_, body := r.post(test.other, test.headers[1]...)
			if denied := strings.Contains(body, "fusebox-go/denied"); denied != test.same {
				t.Errorf("denied: %v, want %v", denied, test.same)
			}
			if strings.Contains(fmt.Sprint(r.box.Runs()), `{a `) && test.headers[0] != nil && test.headers[0][0] == "Mcp-Session-Id" {
				t.Error("a session's id is shown")
			}
		})
	}
}

func TestWhatTheServersStatusSays(t *testing.T) {
	for _, test := range []struct {
		status int
		header string
		class  fusebox.Class // of the server's circuit
		health fusebox.Health
	}{
		{400, "", "", fusebox.Up}, {401, "", "", fusebox.Up}, {404, "", "", fusebox.Up},
		{500, "", fusebox.ClassServer, fusebox.Up}, {503, "", fusebox.ClassOverloaded, fusebox.Up}, {503, "120", fusebox.ClassOverloaded, fusebox.Up}, {504, "", fusebox.ClassTimeout, fusebox.Up},
		{429, "120", "", fusebox.Up},
	} {
		t.Run(fmt.Sprint(test.status, test.header), func(t *testing.T) {
			r := remoteServer(t, options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", test.header)
				w.Header().Set("Www-Authenticate", "Bearer x")
				http.Error(w, "words of the server", test.status)
			})
			status, body := r.post(callBody(1, "weather", ""))
			if status != test.status || body != "words of the server\n" {
				t.Errorf("the client gets %d %q", status, body)
			}
			c, _ := r.box.Circuit("server/s")
			if s := c.Status(); s.LastClass != test.class || s.Health != test.health || s.Throttled.IsZero() != (test.header == "") {
				t.Errorf("the server's circuit: %+v", s)
			}
		})
	}
}

func TestAServerThatIsNotThereOpensItsCircuit(t *testing.T) {
	const nobody = "http://127.0.0.1:1/mcp" // a port that is never given out
	box := newBox(t, fusebox.Config{})
	r := &remote{t: t, box: box, url: guardOf(t, newGuard(t, box, mcp.Config{}), nobody)}
	for i := range 5 {
		if status, body := r.post(callBody(i, fmt.Sprint("tool", i), "")); status != http.StatusOK || !strings.Contains(body, `"class":"connect"`) {
			t.Fatalf("%d %s", status, body)
		}
	}
	if _, body := r.post(callBody(9, "other", "")); !strings.Contains(body, `"circuit":"server/s"`) {
		t.Errorf("have %s", body)
	}
	if status, _ := r.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != http.StatusBadGateway {
		t.Errorf("status %d", status)
	}
}

// TestHTTPPassesUnchanged looks at both sides of the guard.
func TestHTTPPassesUnchanged(t *testing.T) {
	const body = ` {"jsonrpc":"2.0", "id":"\u0061","method":"tools\/call","params":{"name":"x","arguments":{"n":9007199254740993}}} `
	const stream = "retry: 10\r\nid: 0\r\ndata:\r\n\r\n: ping\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"x\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\r\rdata: no end"
	var got *http.Request
	r := remoteServer(t, options{}, func(w http.ResponseWriter, req *http.Request) {
		got = req
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Own", "kept")
		io.WriteString(w, stream)
	})
	resp := r.open(http.MethodPost, body, "X-Unknown", "kept", "Mcp-Method", "tools/call", "Authorization", "Bearer theirs", "Host", "localhost:1")
	defer resp.Body.Close()
	back, _ := io.ReadAll(resp.Body)
	if string(back) != stream || resp.Header.Get("X-Own") != "kept" {
		t.Errorf("the client gets %q %v", back, resp.Header)
	}
	if r.reached[0] != body || got.Header.Get("X-Unknown") != "kept" || got.Header.Get("Mcp-Method") != "tools/call" ||
		got.Header.Get("Authorization") != "Bearer theirs" || got.Host != "localhost:1" || got.URL.Path != "/mcp" {
		t.Errorf("the server gets %q %+v", r.reached[0], got)
	}
}

// TestEventsAreNotHeldBack: each event is read before the next is written.
func TestEventsAreNotHeldBack(t *testing.T) {
	next := make(chan bool)
	r := remoteServer(t, options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range next {
			io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
			w.(http.Flusher).Flush()
		}
	})
	go func() { next <- true }()
	resp := r.open(http.MethodPost, callBody(1, "slow", ""))
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for range 3 {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "data:") {
			t.Fatalf("have %q", lines.Text())
		}
		lines.Scan() // the empty line
		next <- true
	}
	close(next)
}

func TestADeadlineOverHTTP(t *testing.T) {
	for _, test := range []struct{ name, session, kind string }{
		{"no header yet", "", ""}, {"a stream has begun", "", "text/event-stream"}, {"an answer has begun", "", "application/json"}, {"in a session", "s1", "text/event-stream"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cancelled := make(chan string, 1)
			left := make(chan bool, 1)
			var reached atomic.Bool // on a busy machine the time may pass before
			r := remoteServer(t, options{mcp: mcp.Config{Deadline: func(string) time.Duration { return 50 * time.Millisecond }}},
				func(w http.ResponseWriter, req *http.Request) {
					body, _ := io.ReadAll(req.Body)
					if strings.Contains(string(body), "notifications/cancelled") {
						cancelled <- string(body) + req.Header.Get("Mcp-Session-Id")
						w.WriteHeader(http.StatusAccepted)
						return
					}
					reached.Store(true)
					if test.kind != "" {
						w.Header().Set("Content-Type", test.kind)
						io.WriteString(w, "data: {")
						w.(http.Flusher).Flush()
					}
					<-req.Context().Done()
					left <- true
				})
			status, body := r.post(callBody("x", "slow", ""), "Mcp-Session-Id", test.session)
			if status != http.StatusOK || !strings.Contains(body, `"id":"x"`) || !strings.Contains(body, "no answer within 50ms") {
				t.Errorf("have %d %s", status, body)
			}
			if reached.Load() {
				<-left
			}
			if test.session != "" {
				if got := <-cancelled; !strings.Contains(got, `"requestId":"x"`) || !strings.HasSuffix(got, test.session) {
					t.Errorf("have %s", got)
				}
			}
		})
	}
}

// TestAnAnswerMayComeOnAnotherStream: in a session a server may end the stream
// of a call early, and answer on the stream that the client opens next.
func TestAnAnswerMayComeOnAnotherStream(t *testing.T) {
	r := remoteServer(t, options{}, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if req.Method == http.MethodPost {
			io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
			return
		}
		fmt.Fprintf(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":%s}\n\n", failing)
	})
	for i := range 4 {
		_, body := r.post(callBody(7, "weather", "x"), "Mcp-Session-Id", "s1")
		if denied := strings.Contains(body, "denied"); denied != (i == 3) || !denied && strings.Contains(body, "jsonrpc") {
			t.Fatalf("call %d: %s", i, body)
		}
		resp := r.open(http.MethodGet, "", "Mcp-Session-Id", "s1", "Last-Event-ID", "1")
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.Contains(string(got), "no such city") {
			t.Fatalf("have %s", got)
		}
	}
}

func TestAResponseThatBreaksIsAnswered(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json"} {
		t.Run(kind, func(t *testing.T) {
			r := remoteServer(t, options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				io.WriteString(w, "data: {")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			if status, body := r.post(callBody(1, "weather", "")); status != 200 || !strings.Contains(body, "weather failed") || strings.HasPrefix(body, "data: {data") {
				t.Errorf("have %d %q", status, body)
			}
			c, _ := r.box.Circuit("server/s")
			if s := c.Status(); s.Failures != 1 {
				t.Errorf("have %+v", s)
			}
		})
	}
}

func TestAClientThatLeavesIsNoEvidence(t *testing.T) {
	begun := make(chan bool)
	r := remoteServer(t, options{}, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		begun <- true
		<-req.Context().Done()
		begun <- true
	})
	resp := r.open(http.MethodPost, callBody(1, "slow", ""))
	<-begun
	resp.Body.Close()
	<-begun // the server's side ends with the client's
	c, _ := r.box.Circuit("server/s")
	if s := c.Status(); s.Failures != 0 {
		t.Errorf("have %+v", s)
	}
}

func TestWhoMayUseAGuardThatListens(t *testing.T) {
	box := newBox(t, fusebox.Config{})
	guard := newGuard(t, box, mcp.Config{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"), r.Header.Get("Fusebox-Token"))
	}))
	defer upstream.Close()
	for _, test := range []struct {
		name, listen, token string
		header              []string
		status              int
		body                string
	}{
		{"loopback", "127.0.0.1:1", "", nil, 200, ""},
		{"localhost", "127.0.0.1:1", "", []string{"Host", "localhost:80"}, 200, ""},
		{"a name that leads here", "127.0.0.1:1", "", []string{"Host", "evil.example"}, 403, ""},
		{"a page of another origin", "127.0.0.1:1", "", []string{"Origin", "https://evil.example"}, 403, ""},
		{"a sandboxed page", "127.0.0.1:1", "", []string{"Origin", "null"}, 403, ""},
		{"a page of this machine", "127.0.0.1:1", "", []string{"Origin", "http://localhost:6274"}, 200, ""},
		{"no token", "0.0.0.0:1", "t", []string{"Host", "me.example"}, 401, ""},
		{"wrong token", "0.0.0.0:1", "t", []string{"Authorization", "Bearer x"}, 401, ""},
		{"token", "0.0.0.0:1", "t", []string{"Authorization", "Bearer t", "Host", "me.example"}, 200, ""},
		{"token beside the server's", "0.0.0.0:1", "t", []string{"Authorization", "Bearer theirs", "Fusebox-Token", "t"}, 200, "Bearer theirs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := mcp.HTTP{URL: upstream.URL, Listen: test.listen}
			if test.token != "" {
				h.Token = func() string { return test.token }
			}
			handler, err := guard.Handler(h)
			if err != nil {
				t.Fatal(err)
			}
			front := httptest.NewServer(handler)
			defer front.Close()
			r := &remote{t: t, url: front.URL}
			status, body := r.post("{}", test.header...)
			if status != test.status || status == 200 && body != test.body {
				t.Errorf("have %d %q", status, body)
			}
		})
	}
}

func TestAURLThatIsNone(t *testing.T) {
	guard := newGuard(t, newBox(t, fusebox.Config{}), mcp.Config{})
	for _, url := range []string{"", "127.0.0.1:9000", "ftp://x/y", "http://"} {
		if _, err := guard.Handler(mcp.HTTP{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
