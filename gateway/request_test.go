package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// errorOf reads an error in a dialect's shape.
func (a answer) errorOf(t *testing.T) (kind, message string) {
	t.Helper()
	var body struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("the error is not JSON: %v: %s", err, a.body)
	}
	return body.Error.Type, body.Error.Message
}

func TestBadRequestsGetHonestAnswersInTheClientsDialect(t *testing.T) {
	a, b := newUpstream(t, "a", chats("x")), newUpstream(t, "b", messages("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend(), b.anthropic()},
		Routes: []gateway.Route{{Match: "m*", Backends: gateway.InOrder("a", "b")}}})
	deep := `{"model":"m","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		kind, says               string
	}{
		{"wrong method", "GET", "/v1/chat/completions", "", nil, 405, "invalid_request_error", "takes POST"},
		{"wrong method, anthropic", "PUT", "/v1/messages", "{}", nil, 405, "invalid_request_error", "takes POST"},
		{"wrong method for the list", "DELETE", "/v1/models", "", nil, 405, "invalid_request_error", "takes GET"},
		{"no JSON", "POST", "/v1/chat/completions", "model=m", nil, 400, "invalid_request_error", "not a JSON object"},
		{"half JSON", "POST", "/v1/messages", `{"model":"m","messages":[`, nil, 400, "invalid_request_error", "not a JSON object"},
		{"two objects", "POST", "/v1/messages", `{"model":"m"}{}`, nil, 400, "invalid_request_error", "not a JSON object"},
		{"too deep", "POST", "/v1/chat/completions", deep, nil, 400, "invalid_request_error", "not a JSON object"},
		{"empty", "POST", "/v1/chat/completions", "", nil, 400, "invalid_request_error", "not a JSON object"},
		{"no model", "POST", "/v1/chat/completions", `{"messages":[]}`, nil, 400, "invalid_request_error", `no "model"`},
		{"a number for a model", "POST", "/v1/chat/completions", `{"model":5}`, nil, 400, "invalid_request_error", "must be a string"},
		{"compressed", "POST", "/v1/chat/completions", "xx", []string{"Content-Encoding", "gzip"}, 415, "invalid_request_error", "without Content-Encoding"},
		{"no route", "POST", "/v1/chat/completions", `{"model":"other"}`, nil, 404, "invalid_request_error", `serves the model "other"`},
		{"no route, anthropic", "POST", "/v1/messages", `{"model":"other"}`, nil, 404, "not_found_error", `serves the model "other"`},
		{"nothing there", "GET", "/chat/completions", "", nil, 404, "invalid_request_error", "There is nothing at /chat/completions"},
		{"the root", "GET", "/", "", nil, 404, "invalid_request_error", "There is nothing at /"},
		{"a path out of the API", "GET", "/v1/../admin", "", nil, 404, "invalid_request_error", "There is nothing at"},
		{"an escaped path out of the API", "GET", "/v1/%2e%2e/admin", "", nil, 404, "invalid_request_error", "There is nothing at"},
		{"a socket", "GET", "/v1/realtime", "", []string{"Upgrade", "websocket", "Connection", "Upgrade"}, 501, "server_error", "WebSockets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := f.send(t, t.Context(), c.method, c.path, c.body, c.header...)
			if got.err != nil {
				t.Fatal(got.err)
			}
			kind, message := got.errorOf(t)
			if got.status != c.status || kind != c.kind || !strings.Contains(message, c.says) {
				t.Fatalf("%d %s: %s", got.status, kind, message)
			}
		})
	}
	if n := a.hits() + b.hits(); n != 0 {
		t.Fatalf("%d of these reached a backend", n)
	}
}

func TestADialectWithoutABackendIsA404WithWords(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}})
	for _, got := range []answer{
		f.post(t, "/v1/messages", plainMessage),
		f.send(t, t.Context(), "GET", "/v1/models", "", "Anthropic-Version", "2023-06-01"),
	} {
		if kind, message := got.errorOf(t); got.status != 404 || kind != "not_found_error" || !strings.Contains(message, "No backend of this gateway speaks the anthropic API") {
			t.Fatalf("%d %s: %s", got.status, kind, message)
		}
	}
}

func TestABodyThatBreaksOffReachesNobody(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}})
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{\"model\":\"m\"")
	conn.Close()
	receive(t, "the request to end", f.noted)
	if got := f.told()[0]; got.Outcome != "canceled" || got.Status != 499 || a.hits() != 0 {
		t.Fatalf("told of as %q with %d; a was asked %d times", got.Outcome, got.Status, a.hits())
	}
}

func TestAChunkedBodyBeyondTheLimitIsRefused(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}, MaxBody: 1000})
	conn, err := net.Dial("tcp", f.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n%s\r\n0\r\n\r\n", strings.Repeat("x", 2000))
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 413 {
		t.Fatalf("%v, %v", response, err)
	}
}

func TestOnlyTheModelsNameIsChanged(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	mapped := a.backend()
	mapped.Models = map[string]string{"*": "llama3.2", "gpt-*": "big \"one\"", "gpt-5": "exact"}
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{mapped}})
	for _, c := range []struct{ sent, got string }{
		{`{ "messages" : [{"model":"inner"}],` + "\n\t" + `"model" : "gpt-5" , "x":1.50e3, "é":"\u00e9"}`, `{ "messages" : [{"model":"inner"}],` + "\n\t" + `"model" : "exact" , "x":1.50e3, "é":"\u00e9"}`},
		{`{"model":"gpt-4o"}`, `{"model":"big \"one\""}`},
		{`{"mod\u0065l":"any/thing"}`, `{"mod\u0065l":"llama3.2"}`},
		{`{"model":"a","model":"b"}`, `{"model":"llama3.2","model":"llama3.2"}`},
		{`{"model":"llama3.2"  }`, `{"model":"llama3.2"  }`},
	} {
		if got := f.post(t, "/v1/chat/completions", c.sent); got.status != 200 {
			t.Fatalf("%d: %s", got.status, got.body)
		}
		if a.last().body != c.got {
			t.Errorf("a got %s, want %s", a.last().body, c.got)
		}
	}
	if s := f.status(t, "model/a/llama3.2"); s.Health != fusebox.Up {
		t.Errorf("the circuit of the mapped name is %v", s.Health)
	}
}

func TestOtherPathsPassUnderTheBackendsCircuit(t *testing.T) {
	f, a, b := pair(t, trips(1, time.Hour), status(200, `{"id":"file-1"}`), status(200, `{"id":"file-b"}`))
	got := f.send(t, t.Context(), "GET", "/v1/files/a%2Fb?purpose=x", "")
	if got.status != 200 || got.body != `{"id":"file-1"}` || a.last().path != "/v1/files/a%2Fb?purpose=x" {
		t.Fatalf("%d %s, a was asked for %s", got.status, got.body, a.last().path)
	}
	if s := f.status(t, "model/a/*"); s.Health != fusebox.Up {
		t.Fatalf("model/a/* is %v", s.Health)
	}
	a.does(reset)
	if got := f.send(t, t.Context(), "POST", "/v1/files", "content"); got.status != 502 || b.hits() != 0 {
		t.Fatalf("an upload that a may have taken: %d, b asked %d times", got.status, b.hits())
	}
	f.send(t, t.Context(), "POST", "/v1/files", "content").wants(t, 200, "", "b", "degraded")
}

func TestKeysGoWhereTheyBelong(t *testing.T) {
	own, none, theirs := newUpstream(t, "own", status(500, tooBusy)), newUpstream(t, "none", status(500, tooBusy)), newUpstream(t, "theirs", chats("x"))
	first, last := own.backend(), theirs.backend()
	first.Key, first.KeyName = func() string { return "own-key" }, "OWN_KEY"
	last.ClientKey = true
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{first, none.backend(), last}, Token: func() string { return "the token" }})
	got := f.post(t, "/v1/chat/completions", plainChat, "Authorization", "Bearer client-key", "X-Api-Key", "the token",
		"Cookie", "session=1", "OpenAI-Organization", "org", "Fusebox-Backend", "spoof", "X-Custom", "kept", "Accept-Encoding", "br")
	got.wants(t, 200, "x", "theirs", "degraded")
	for _, c := range []struct {
		from          *upstream
		authorization string
		organization  string
	}{{own, "Bearer own-key", ""}, {none, "", ""}, {theirs, "Bearer client-key", "org"}} {
		h := c.from.last().header
		if h.Get("Authorization") != c.authorization || h.Get("Openai-Organization") != c.organization || h.Get("X-Api-Key") != "" ||
			h.Get("Cookie") != "" || h.Get("Fusebox-Backend") != "" || h.Get("X-Custom") != "kept" || h.Get("Accept-Encoding") != "" {
			t.Errorf("%s was sent %v", c.from.name, h)
		}
	}
	if got.header.Get("Fusebox-Attempts") != "3" {
		t.Errorf("attempts: %q", got.header.Get("Fusebox-Attempts"))
	}
}

func TestTheTokenIsAskedForAndNeverPassedOn(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	open := a.backend()
	open.ClientKey = true
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{open}, Token: func() string { return "right" }})
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"X-Api-Key", "righ"}, {"Authorization", "Basic right"}} {
		if got := f.post(t, "/v1/chat/completions", plainChat, header...); got.status != 401 || a.hits() != 0 {
			t.Fatalf("%v: %d", header, got.status)
		}
	}
	for _, header := range [][]string{{"Authorization", "Bearer right"}, {"X-Api-Key", "right"}} {
		if got := f.post(t, "/v1/chat/completions", plainChat, header...); got.status != 200 {
			t.Fatalf("%v: %d: %s", header, got.status, got.body)
		}
		if h := a.last().header; h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" {
			t.Fatalf("the token went on: %v", h)
		}
	}
}

func TestWebPagesOfOthersAreRefused(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}, Listen: "127.0.0.1:4040"})
	for _, c := range []struct {
		name   string
		header []string
		status int
	}{
		{"a rebound name", []string{"Host", "evil.example:4040"}, 403},
		{"another origin", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{"localhost", []string{"Host", "localhost:4040"}, 200},
		{"the address in IPv6", []string{"Host", "[::1]:4040"}, 200},
		{"its own pages", []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		if got := f.post(t, "/v1/chat/completions", plainChat, c.header...); got.status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, got.status, c.status, got.body)
		}
	}
	public := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}, Listen: "0.0.0.0:4040", Token: func() string { return "t" }})
	if got := public.post(t, "/v1/chat/completions", plainChat, "Host", "models.example", "X-Api-Key", "t"); got.status != 200 {
		t.Errorf("off loopback: %d: %s", got.status, got.body)
	}
}

func TestAClientsOwnKeyIsItsOwnAffair(t *testing.T) {
	a, b := newUpstream(t, "a", status(401, `{"error":{"message":"bad key","code":"invalid_api_key"}}`)), newUpstream(t, "b", chats("from b"))
	theirs := a.backend()
	theirs.ClientKey = true
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{theirs, b.backend()}})
	got := f.post(t, "/v1/chat/completions", plainChat, "Authorization", "Bearer one")
	if got.status != 401 || !strings.Contains(got.body, "bad key") || b.hits() != 0 {
		t.Fatalf("%d: %s", got.status, got.body)
	}
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Failures != 0 {
		t.Fatalf("a is %v", s.Phase)
	}
	a.does(status(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "30"))
	for range 2 {
		f.post(t, "/v1/chat/completions", plainChat, "Authorization", "Bearer one").wants(t, 200, "from b", "b", "degraded")
	}
	if a.hits() != 2 {
		t.Fatalf("a was asked %d times, want the 401 and one 429", a.hits())
	}
	a.does(chats("from a"))
	f.post(t, "/v1/chat/completions", plainChat, "Authorization", "Bearer two").wants(t, 200, "from a", "a", "ok")
}

func TestTheListOfModelsIsTheUnionOfThoseThatAnswer(t *testing.T) {
	list := func(ids ...string) http.HandlerFunc {
		var items []string
		for _, id := range ids {
			items = append(items, `{"id":"`+id+`","object":"model","created":1,"owned_by":"x"}`)
		}
		return status(200, `{"object":"list","data":[`+strings.Join(items, ",")+`]}`)
	}
	a, b, c := newUpstream(t, "a", list("m1", "m2")), newUpstream(t, "b", list("m2", "m3")), newUpstream(t, "c", status(500, "broken"))
	f := newFront(t, trips(1, time.Hour), gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend(), c.backend()}})
	for range 2 {
		got := f.send(t, t.Context(), "GET", "/v1/models", "")
		var body struct{ Data []struct{ ID string } }
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(body.Data) != "[{m1} {m2} {m3}]" || got.header.Get("Fusebox-Missing") != "c" || got.header.Get("Fusebox-Outcome") != "degraded" {
			t.Fatalf("%v, missing %q, %q", body.Data, got.header.Get("Fusebox-Missing"), got.header.Get("Fusebox-Outcome"))
		}
	}
	if c.hits() != 1 {
		t.Fatalf("c was asked %d times with its circuit open", c.hits())
	}
	for _, u := range []*upstream{a, b} {
		u.does(status(200, "<html>"))
	}
	if got := f.send(t, t.Context(), "GET", "/v1/models", ""); got.status != 503 || got.header.Get("X-Should-Retry") != "false" {
		t.Fatalf("%d: %s", got.status, got.body)
	}
}

func TestI19_CallersCannotMakeCircuitsWithoutEnd(t *testing.T) {
	a := newUpstream(t, "a", chats("x"))
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{a.backend()}})
	odd := []string{"two words", strings.Repeat("long", 100), "../up", "tab\\u0009"}
	for i := range 230 {
		odd = append(odd, fmt.Sprintf("model-%d", i))
	}
	for _, model := range odd {
		if got := f.post(t, "/v1/chat/completions", `{"model":"`+model+`"}`); got.status != 200 {
			t.Fatalf("%s: %d: %s", model, got.status, got.body)
		}
	}
	if n := len(f.box.Circuits()); n != 201 {
		t.Fatalf("%d circuits, want 200 and the shared one", n)
	}
}

func TestTheRequestIsToldOf(t *testing.T) {
	f, _, _ := pair(t, nil, status(500, tooBusy), chats("from b"))
	f.post(t, "/v1/chat/completions", streamedChat)
	receive(t, "the request to end", f.noted)
	r := f.told()[0]
	if r.Backend != "b" || r.Circuit != "model/b/m" || r.Outcome != "degraded" || r.Status != 200 || r.Attempts != 2 || r.Failovers != 1 ||
		r.Refusals != 0 || r.Route != "*" || r.FirstToken <= 0 || r.Elapsed < r.FirstToken {
		t.Errorf("%+v", r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.attempts) != 2 || f.attempts[0].Class != fusebox.ClassServer || f.attempts[1].Outcome != fusebox.Success || f.attempts[1].FirstToken <= 0 {
		t.Errorf("%+v", f.attempts)
	}
}

func TestConfigurationMistakesAreAllNamed(t *testing.T) {
	_, err := gateway.New(gateway.Config{
		Backends: []gateway.Backend{
			{Name: "a/b", URL: "ftp://x", Dialect: "gemini"},
			{Name: "ok", URL: "http://user:pw@h/v1", Dialect: gateway.OpenAI, Key: func() string { return "" }},
			{Name: "ok", URL: "http://h/v1", Dialect: gateway.OpenAI, ClientKey: true, Key: func() string { return "" }, KeyName: "K"},
		},
		Routes: []gateway.Route{{Backends: gateway.InOrder("nobody"), Answers: "sometimes"}},
		Retry:  fusebox.Retry{Attempts: -1},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Box is missing", "one word", "http://", `"gemini"`, "no password", "Key and KeyName", "not both", "two of this name",
		"match: want", `no backend "nobody"`, `"sometimes"`, "attempts"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing of %q in: %v", want, err)
		}
	}
}

func TestAContextOfTheServersOwnIsAFailureByTimeout(t *testing.T) {
	a := newUpstream(t, "a", nil)
	a.does(a.hang)
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	g, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{a.backend()}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	r, _ := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/v1/chat/completions", strings.NewReader(plainChat))
	g.ServeHTTP(w, r)
	c, _ := box.Circuit("model/a/m")
	if s := c.Status(); w.Code != 504 || s.LastClass != fusebox.ClassTimeout {
		t.Fatalf("%d, class %q", w.Code, s.LastClass)
	}
}
