package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// upstream is a scripted backend: a real server on loopback whose behaviour a
// test changes at will.
type upstream struct {
	*httptest.Server
	name string

	mu     sync.Mutex
	behave http.HandlerFunc
	calls  []seen
	gone   chan struct{} // one value per call whose client went away
	busy   chan struct{} // one value per call that began to hang
}

// seen is a request as the upstream got it.
type seen struct {
	path   string
	header http.Header
	body   string
	at     time.Time
}

func newUpstream(t testing.TB, name string, behave http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{name: name, behave: behave, gone: make(chan struct{}, 1000), busy: make(chan struct{}, 1000)}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.calls = append(u.calls, seen{r.URL.RequestURI(), r.Header.Clone(), string(body), time.Now()})
		now := u.behave
		u.mu.Unlock()
		now(w, r.WithContext(context.WithValue(r.Context(), bodyKey{}, string(body))))
	}))
	u.Config.ErrorLog = quiet
	start(u.Server)
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstream) does(behave http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.behave = behave
}

func (u *upstream) hits() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.calls)
}

// times are when the upstream was asked.
func (u *upstream) times() (at []time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		at = append(at, c.at)
	}
	return at
}

func (u *upstream) last() seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls[len(u.calls)-1]
}

// backend is the upstream as a gateway's backend.
func (u *upstream) backend() gateway.Backend {
	return gateway.Backend{Name: u.name, URL: u.URL + "/v1", Dialect: gateway.OpenAI}
}

func (u *upstream) anthropic() gateway.Backend {
	b := u.backend()
	b.Dialect = gateway.Anthropic
	return b
}

// hang takes a request and never answers.
func (u *upstream) hang(_ http.ResponseWriter, r *http.Request) {
	u.busy <- struct{}{}
	<-r.Context().Done()
	u.gone <- struct{}{}
}

// leaving is the context of a client that goes away once the upstream hangs.
func (u *upstream) leaving(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		select {
		case <-u.busy:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// status answers with a status and a body.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// reset breaks the connection before any answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok { // a pipe is closed, no more
		tcp.SetLinger(0)
	}
	conn.Close()
}

// chats answers a chat completion, streamed if that is asked for.
func chats(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			status(200, `{"object":"list","data":[{"id":"`+strings.Fields(text)[0]+`","object":"model","created":1,"owned_by":"test"}]}`)(w, r)
			return
		}
		if strings.Contains(lastBody(r), `"stream":true`) {
			chatStream(text, "finish", "done")(w, r)
			return
		}
		status(200, chatAnswer(text))(w, r)
	}
}

func chatAnswer(text string) string {
	return fmt.Sprintf(`{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, text)
}

// lastBody lets a behaviour look at the body, which the upstream has read.
func lastBody(r *http.Request) string { return r.Context().Value(bodyKey{}).(string) }

type bodyKey struct{}

// modelOf is the model that a request asks for.
func modelOf(r *http.Request) string {
	var asked struct{ Model string }
	json.Unmarshal([]byte(lastBody(r)), &asked)
	return asked.Model
}

// chatStream streams text, a word an event, and then does what the steps say.
func chatStream(text string, steps ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := begin(w)
		s.send(fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":%q,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, modelOf(r)))
		for word := range strings.FieldsSeq(text) {
			s.send(fmt.Sprintf(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"%s "},"finish_reason":null}]}`, word))
		}
		s.then(r, steps...)
	}
}

// sse is a stream being written.
type sse struct{ w http.ResponseWriter }

func begin(w http.ResponseWriter) sse {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	s := sse{w}
	s.flush()
	return s
}

func (s sse) send(event string) {
	io.WriteString(s.w, event+"\n\n")
	s.flush()
}

func (s sse) flush() { s.w.(http.Flusher).Flush() }

// then goes on with a stream: "finish", "done", "reset", "abort", "hang", or an event.
func (s sse) then(r *http.Request, steps ...string) {
	for _, step := range steps {
		switch step {
		case "finish":
			s.send(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		case "usage":
			s.send(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
		case "done":
			s.send("data: [DONE]")
		case "reset":
			reset(s.w, r)
		case "abort":
			panic(http.ErrAbortHandler)
		case "hang":
			<-r.Context().Done()
		default:
			s.send(step)
		}
	}
}

// messages answers in Anthropic's dialect, streamed if that is asked for.
func messages(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(lastBody(r), `"stream":true`) {
			messageStream(text, messageEnd...)(w, r)
			return
		}
		status(200, fmt.Sprintf(`{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`, text))(w, r)
	}
}

var messageEnd = []string{
	"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}`,
	"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
	"event: message_stop\n" + `data: {"type":"message_stop"}`,
}

func messageStream(text string, steps ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := begin(w)
		s.send("event: message_start\n" + fmt.Sprintf(`data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`, modelOf(r)))
		s.send("event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		s.send("event: ping\n" + `data: {"type":"ping"}`)
		for word := range strings.FieldsSeq(text) {
			s.send("event: content_block_delta\n" + fmt.Sprintf(`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s "}}`, word))
		}
		s.then(r, steps...)
	}
}

// front is a gateway being served.
type front struct {
	*httptest.Server
	box     *fusebox.Box
	cfg     gateway.Config
	gateway *gateway.Gateway // that serves
	serving atomic.Pointer[gateway.Gateway]
	arrived atomic.Int64            // requests
	read    atomic.Int64            // bytes of answers that clients have
	cut     context.CancelCauseFunc // ends all requests

	mu       sync.Mutex
	attempts []gateway.Attempt
	requests []gateway.Request
	noted    chan struct{} // one value per request that ended
}

// newFront serves a gateway. Retries are off unless the config says otherwise.
func newFront(t testing.TB, policy func(string) fusebox.Policy, cfg gateway.Config) *front {
	t.Helper()
	return newFrontOn(t, fusebox.Config{Policy: policy}, cfg)
}

// newFrontOn serves a gateway on a box of its own.
func newFrontOn(t testing.TB, boxed fusebox.Config, cfg gateway.Config) *front {
	t.Helper()
	box, err := fusebox.New(boxed)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{box: box, noted: make(chan struct{}, 1000)}
	cfg.Box = box
	if cfg.Retry == (fusebox.Retry{}) {
		cfg.Retry = fusebox.Retry{Attempts: 1}
	}
	cfg.Observer = gateway.Observer{
		Attempt: func(a gateway.Attempt) { f.mu.Lock(); defer f.mu.Unlock(); f.attempts = append(f.attempts, a) },
		Request: func(r gateway.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.requests = append(f.requests, r)
			select {
			case f.noted <- struct{}{}:
			default: // nobody waits for so many
			}
		},
	}
	f.cfg = cfg
	f.goOnWith(t, cfg)
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.arrived.Add(1)
		f.serving.Load().ServeHTTP(w, r)
	}))
	f.Config.ErrorLog = quiet
	requests, cut := context.WithCancelCause(context.Background())
	f.Config.BaseContext, f.cut = func(net.Listener) context.Context { return requests }, cut
	start(f.Server)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		cut(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		box.Close(ctx)
	})
	return f
}

// goOnWith serves by another configuration from now on, as a reload does.
func (f *front) goOnWith(t testing.TB, cfg gateway.Config) {
	t.Helper()
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if f.gateway != nil {
		g.TakeOver(f.gateway)
	}
	f.gateway = reaching(g)
	f.serving.Store(g)
	t.Cleanup(g.Close)
}

// status returns what is known of a circuit.
func (f *front) status(t testing.TB, circuit string) fusebox.Status {
	t.Helper()
	c, err := f.box.Circuit(circuit)
	if err != nil {
		t.Fatal(err)
	}
	return c.Status()
}

// told returns what the observer was told of the requests so far.
func (f *front) told() []gateway.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body

	trailer http.Header
}

const (
	plainChat    = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamedChat = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	plainMessage = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	streamedMsg  = `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// post sends a request and reads the whole answer.
func (f *front) post(t testing.TB, path, body string, headers ...string) answer {
	t.Helper()
	return f.send(t, context.Background(), http.MethodPost, path, body, headers...)
}

func (f *front) send(t testing.TB, ctx context.Context, method, path, body string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, f.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := f.Client().Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.TeeReader(response.Body, counter{&f.read}))
	return answer{response.StatusCode, response.Header, string(got), err, response.Trailer}
}

// denied is the refusal in an answer of the gateway's own.
func (a answer) denied(t testing.TB) (d struct{ Circuit, Reason, Instruction string }) {
	t.Helper()
	in := struct{ Denied any }{&d}
	if err := json.Unmarshal([]byte(a.body), &in); err != nil || d.Circuit == "" {
		t.Fatalf("no refusal, %v: %s", err, a.body)
	}
	return d
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// text is the content of a chat's answer, streamed or not.
func (a answer) text(t testing.TB) string {
	t.Helper()
	type message struct{ Content string }
	var text strings.Builder
	add := func(data string) {
		var chunk struct {
			Choices []struct{ Delta, Message message }
			Content []struct{ Text string }
			Delta   struct{ Text string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("not JSON: %v: %s", err, data)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content + c.Message.Content)
		}
		for _, c := range chunk.Content {
			text.WriteString(c.Text)
		}
		text.WriteString(chunk.Delta.Text)
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		add(a.body)
		return text.String()
	}
	for line := range strings.Lines(a.body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			add(data)
		}
	}
	return strings.TrimSpace(text.String())
}

// patience is how long anything may take that must happen.
const patience = 2 * time.Minute

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// receive waits for a value on a channel.
func receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("waited in vain for: %s", what)
	}
	return v
}

// quiet swallows what servers say of connections that tests break.
var quiet = log.New(io.Discard, "", 0)
