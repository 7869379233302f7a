package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// HTTP is a server that speaks streamable HTTP, and where it is guarded.
type HTTP struct {
	URL    string        // of the server
	Listen string        // host:port that the guard listens on, for the check of Host
	Token  func() string // what callers must show; nil = nothing
}

// Handler guards a server over streamable HTTP, with sessions and without, and
// over the transport of 2024-11-05. It serves the path of the server's URL,
// also as "/"; other paths are the server's as they are.
func (g *Guard) Handler(h HTTP) (http.Handler, error) {
	server, err := url.Parse(h.URL)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, fmt.Errorf("mcp: want a URL such as http://127.0.0.1:9000/mcp, have %q", h.URL)
	}
	f := &front{g: g, server: server, sessions: newSessions(), access: newAccess(h.Token, h.Listen)}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTime}).DialContext
	transport.DisableCompression = true // bytes pass as they are
	transport.MaxIdleConnsPerHost = 64
	f.transport = transport
	f.proxy = &httputil.ReverseProxy{Rewrite: f.rewrite, Transport: f, FlushInterval: -1, BufferPool: &f.buffers,
		ErrorHandler: f.unreachable, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug)}
	return f, nil
}

// connectTime is how long a connection may take.
const connectTime = 5 * time.Second

// front is the guard of a server over HTTP. It carries messages itself, see
// relay, and all else as a RoundTripper within a reverse proxy, which knows all
// that is HTTP's.
type front struct {
	g         *Guard
	server    *url.URL
	access    *access
	sessions  *sessions
	old       oldStreams
	proxy     *httputil.ReverseProxy
	buffers   buffers
	transport http.RoundTripper
}

// HTTP's names.
const (
	sessionHeader = "Mcp-Session-Id"
	eventStream   = "text/event-stream"
)

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, why := f.access.check(r); status != 0 {
		http.Error(w, why, status)
		return
	}
	if r.Method == http.MethodPost {
		f.post(w, r)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

func (f *front) rewrite(p *httputil.ProxyRequest) { f.address(p.Out) }

// address addresses a client's request to the server. On this machine it keeps
// the client's Host, which the server may want to check.
func (f *front) address(r *http.Request) {
	r.URL.Scheme, r.URL.Host = f.server.Scheme, f.server.Host
	if r.URL.Path == "/" || r.URL.Path == "" {
		r.URL.Path, r.URL.RawPath = f.server.Path, f.server.RawPath
	}
	if r.URL.RawQuery == "" {
		r.URL.RawQuery = f.server.RawQuery
	}
	if !isLoopback(f.server.Hostname()) {
		r.Host = f.server.Host
	}
	f.access.strip(r.Header)
}

// unreachable answers what the server is not there for.
func (f *front) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	f.g.log.Info("the server is not reached", "error", err)
	http.Error(w, "the MCP server is not reached: "+fusebox.ErrorText(err), http.StatusBadGateway)
}

// RoundTrip carries a request that is no message to the server, and its
// response back.
func (f *front) RoundTrip(r *http.Request) (*http.Response, error) {
	id := r.Header.Get(sessionHeader)
	if r.Method == http.MethodGet {
		return f.listen(r, id)
	}
	resp, err := f.send(r)
	if err == nil && r.Method == http.MethodDelete && resp.StatusCode < 300 {
		f.sessions.end(id)
	}
	return resp, err
}

// send sends a request that is no tool call. That the server is not there is
// evidence all the same.
func (f *front) send(r *http.Request) (*http.Response, error) {
	resp, err := f.transport.RoundTrip(r)
	if err != nil && r.Context().Err() == nil {
		if p, denied := f.g.circuit.Allow(context.Background()); denied == nil {
			p.Done(fusebox.Classify(r.Context(), err))
		}
	}
	return resp, err
}

// listen opens a stream of what the server says by itself. In the era with
// sessions the answer to a call may come on it.
func (f *front) listen(r *http.Request, session string) (*http.Response, error) {
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := f.send(r)
	if err != nil || !isStream(resp) {
		return resp, err
	}
	if session == "" {
		return f.listenOld(r, resp), nil
	}
	table := f.sessions.table(session)
	resp.Body = newEvents(resp.Body, func(m *message) bool {
		pass, _ := table.fromServer(m)
		return pass
	}, nil)
	return resp, nil
}

// maxBody bounds the requests that are read, in bytes; larger ones pass unread.
const maxBody = 64 << 20

// post carries what the client posts, a message as a rule.
func (f *front) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		f.unreachable(w, r, err)
		return
	}
	if len(body) > maxBody {
		f.g.log.Warn("a request is not guarded: it is too large", "limit", maxBody)
		r.Body = readCloser{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		f.proxy.ServeHTTP(w, r)
		return
	}
	resp, err := f.message(f.outgoing(r, body), body)
	if err != nil {
		f.unreachable(w, r, err)
		return
	}
	f.relay(w, resp)
}

// message carries a message of the client.
func (f *front) message(r *http.Request, body []byte) (*http.Response, error) {
	m, ok := readMessage(body)
	if !ok {
		return f.send(r)
	}
	if s := f.old.at(addressOf(r.URL)); s != nil {
		return f.postOld(r, &m, s)
	}
	session := r.Header.Get(sessionHeader)
	if m.isRequest() {
		if c, ok := readCall(&m); ok && m.is(methodCall) {
			return f.call(r, c, session)
		}
		return f.send(r)
	}
	if session != "" && !f.sessions.table(session).fromClient(&m) {
		return respond(r, http.StatusAccepted, "", nil), nil
	}
	return f.send(r)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// call decides a tool call, and carries it.
func (f *front) call(r *http.Request, c toolCall, session string) (*http.Response, error) {
	call, denial := f.g.admit(c, origin{run: r.Header.Get(RunHeader), session: sessionRun(session)})
	if denial != nil {
		return respond(r, http.StatusOK, "application/json", deniedAnswer(c.id, denial)), nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	x := &exchange{f: f, r: r.WithContext(ctx), client: r.Context(), cancel: cancel, session: session}
	if session != "" {
		x.table = f.sessions.table(session)
	} else {
		x.table = newTable()
	}
	x.request = &request{id: c.id, call: call, limit: f.g.deadline(c.tool), expired: x.expire}
	x.r.Header.Set("Accept-Encoding", "identity") // it is to be read
	x.table.add(x.request)
	return x.carry()
}

// sessionRun is the run of a session. Whoever knows a session's id can speak in
// it, so that what is shown is another.
func sessionRun(session string) string {
	if session == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(session))
	return "session-" + hex.EncodeToString(sum[:8])
}

// respond makes a response of the guard's own.
func respond(r *http.Request, status int, contentType string, body []byte) *http.Response {
	header := http.Header{"Content-Length": {strconv.Itoa(len(body))}}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return &http.Response{
		StatusCode: status, Request: r,
		Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// isStream reports whether a response is a stream of events.
func isStream(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), eventStream)
}
