package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/transport"
)

// threshold is how many failures in a row open the circuits of these tests.
const threshold = 3

const (
	cooldown = 30 * time.Second
	lease    = time.Minute
)

func policy(string) fusebox.Policy {
	p := fusebox.DefaultPolicy("server")
	p.Trip = []fusebox.Trip{fusebox.Streak(threshold)}
	p.Cooldown = fusebox.Cooldown{After: cooldown}
	p.Probe.Lease = lease
	return p
}

func newBox(t *testing.T) *fusebox.Box {
	t.Helper()
	box, err := fusebox.New(fusebox.Config{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	return box
}

func newTransport(t *testing.T, c transport.Config) *transport.Transport {
	t.Helper()
	rt, err := transport.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

func status(t *testing.T, box *fusebox.Box, name string) fusebox.Status {
	t.Helper()
	circuit, err := box.Circuit(name)
	if err != nil {
		t.Fatal(err)
	}
	return circuit.Status()
}

// roundTripper is a base made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response as a base returns it.
func answer(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}
}

func request(t *testing.T, ctx context.Context) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://crm.example/customers/4521", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const circuit = "server/crm.example"

// brokenBody yields its text and then the error.
type brokenBody struct {
	io.Reader
	err error
}

func newBrokenBody(text string, err error) *brokenBody {
	return &brokenBody{strings.NewReader(text), err}
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func (b *brokenBody) Close() error { return nil }

func TestNewWithoutBox(t *testing.T) {
	if _, err := transport.New(transport.Config{}); err == nil || !strings.Contains(err.Error(), "Box") {
		t.Errorf("error %v, want one that names Config.Box", err)
	}
}

// A stream must not count as a success when its header comes: a host that
// answers 200, sends a piece and breaks off would never be seen to fail.
func TestBrokenStreamIsFailure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: one\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	box := newBox(t)
	client := &http.Client{Transport: newTransport(t, transport.Config{Box: box})}
	name := "server/" + strings.TrimPrefix(server.URL, "http://")

	for i := range threshold {
		if phase := status(t, box, name).Phase; phase != fusebox.Closed {
			t.Fatalf("%v before stream %d broke", phase, i+1)
		}
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Fatal("the stream did not break")
		}
		resp.Body.Close()
	}
	s := status(t, box, name)
	if s.Phase != fusebox.Open || s.LastClass != fusebox.ClassStream {
		t.Errorf("%v with class %q, want open with class stream", s.Phase, s.LastClass)
	}
	_, err := client.Get(server.URL)
	if !errors.Is(err, fusebox.ErrOpen) || fusebox.AsDenial(err) == nil {
		t.Errorf("error %v, want a denial of an open circuit", err)
	}
}

// One call of each kind, and what it leaves behind: the failures counted, the
// class of the last one, and whether it is evidence at all.
func TestReports(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancelLate()

	tests := []struct {
		name     string
		ctx      context.Context // nil = Background; takes effect when the base is called
		base     roundTripper
		unread   bool // close the body without reading it
		failures int
		class    fusebox.Class
		health   fusebox.Health
	}{
		{name: "whole body", base: answers(200, "good"), health: fusebox.Up},
		{name: "no body", base: answers(204, ""), health: fusebox.Up},
		{name: "body closed unread", base: answers(200, "good"), unread: true, health: fusebox.Up},
		{name: "rejected", base: answers(422, "no such field"), health: fusebox.Up},
		{name: "server error", base: answers(500, "oops"), failures: 1, class: fusebox.ClassServer, health: fusebox.Up},
		{name: "overloaded", base: answers(529, "oops"), failures: 1, class: fusebox.ClassOverloaded, health: fusebox.Up},
		{name: "credential refused", base: answers(401, ""), failures: 1, class: fusebox.ClassAuth, health: fusebox.Down},
		{name: "reset", base: fails(io.ErrUnexpectedEOF), failures: 1, class: fusebox.ClassReset, health: fusebox.Up},
		{name: "deadline", base: fails(context.DeadlineExceeded), failures: 1, class: fusebox.ClassTimeout, health: fusebox.Up},
		{name: "deadline of the caller in other words", ctx: late, base: fails(errors.New("operation was aborted")),
			failures: 1, class: fusebox.ClassTimeout, health: fusebox.Up},
		{name: "caller gave up in other words", ctx: canceled, base: fails(errors.New("operation was aborted"))},
		{name: "caller gave up, body broke", ctx: canceled, base: breaks(errors.New("operation was aborted"))},
		{name: "caller gave up, body closed", ctx: canceled, base: answers(200, "good"), unread: true},
		{name: "canceled by somebody else", base: fails(context.Canceled), failures: 1, class: fusebox.ClassReset, health: fusebox.Up},
		{name: "body broke", base: breaks(io.ErrUnexpectedEOF), failures: 1, class: fusebox.ClassStream, health: fusebox.Up},
		{name: "body timed out", base: breaks(context.DeadlineExceeded), failures: 1, class: fusebox.ClassTimeout, health: fusebox.Up},
		{name: "refused by a circuit further in", base: fails(fusebox.NewDenial(fusebox.DenialInfo{Reason: fusebox.ReasonOpen}))},
		{name: "told by the base", base: fails(fusebox.Fail(fusebox.ClassStall, io.EOF)), failures: 1, class: fusebox.ClassStall, health: fusebox.Up},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			box := newBox(t)
			ctx := &lateContext{Context: context.Background()}
			rt := newTransport(t, transport.Config{Box: box, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if test.ctx != nil {
					ctx.Context = test.ctx
				}
				return test.base(r)
			})})
			resp, err := rt.RoundTrip(request(t, ctx))
			if err == nil {
				if !test.unread {
					io.Copy(io.Discard, resp.Body)
				}
				resp.Body.Close()
				resp.Body.Close() // a second Close must not report again
			}
			s := status(t, box, circuit)
			if s.Failures != test.failures || s.LastClass != test.class || s.Health != test.health {
				t.Errorf("%d failures, class %q, %v; want %d, %q, %v",
					s.Failures, s.LastClass, s.Health, test.failures, test.class, test.health)
			}
		})
	}
}

// lateContext becomes another context when the call is already admitted.
type lateContext struct{ context.Context }

func answers(status int, text string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		if text == "" {
			return answer(r, status, http.NoBody), nil
		}
		return answer(r, status, io.NopCloser(strings.NewReader(text))), nil
	}
}

func breaks(err error) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return answer(r, 200, newBrokenBody("data: one\n\n", err)), nil
	}
}

func fails(err error) roundTripper {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func TestConnectionRefusedIsConnect(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	box := newBox(t)
	rt := newTransport(t, transport.Config{Box: box})
	r, _ := http.NewRequest("GET", server.URL, nil)
	if _, err := rt.RoundTrip(r); err == nil {
		t.Fatal("a closed server answered")
	}
	if class := status(t, box, transport.Host(r)).LastClass; class != fusebox.ClassConnect {
		t.Errorf("class %q, want connect", class)
	}
}

func TestUntrustedCertificateIsConnect(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	box := newBox(t)
	rt := newTransport(t, transport.Config{Box: box, Base: &http.Transport{}})
	r, _ := http.NewRequest("GET", server.URL, nil)
	if _, err := rt.RoundTrip(r); err == nil {
		t.Fatal("the certificate was trusted")
	}
	if class := status(t, box, transport.Host(r)).LastClass; class != fusebox.ClassConnect {
		t.Errorf("class %q, want connect", class)
	}
}

// open trips the circuit through the transport.
func open(t *testing.T, box *fusebox.Box) {
	t.Helper()
	rt := newTransport(t, transport.Config{Box: box, Base: answers(500, "")})
	for range threshold {
		rt.RoundTrip(request(t, context.Background()))
	}
	if phase := status(t, box, circuit).Phase; phase != fusebox.Open {
		t.Fatalf("%v after %d failures, want open", phase, threshold)
	}
}

func TestRefusalSendsNothing(t *testing.T) {
	box := newBox(t)
	open(t, box)
	rt := newTransport(t, transport.Config{Box: box, Base: roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("the base was called")
		return nil, io.EOF
	})})
	sent := &closeRecorder{Reader: strings.NewReader("order")}
	r, err := http.NewRequest("POST", "http://crm.example/orders", sent)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.RoundTrip(r)
	d := fusebox.AsDenial(err)
	if d == nil || d.Reason() != fusebox.ReasonOpen || d.Circuit() != circuit || d.Failures() != threshold {
		t.Errorf("error %v, want a denial of %s after %d failures", err, circuit, threshold)
	}
	if !sent.closed {
		t.Error("the request's body was not closed")
	}
	if s := status(t, box, circuit); s.Denied != 1 {
		t.Errorf("%d denied, want 1", s.Denied)
	}
}

type closeRecorder struct {
	io.Reader
	closed bool
}

func (c *closeRecorder) Close() error { c.closed = true; return nil }

// A probe gives its slot back on every way out. Verdicts close or reopen the
// circuit, the other ways leave it half-open with a free slot.
func TestProbeGivesItsSlotBack(t *testing.T) {
	tests := []struct {
		name  string
		probe func(t *testing.T, box *fusebox.Box)
		want  fusebox.Phase
	}{
		{"read to the end", func(t *testing.T, box *fusebox.Box) {
			resp := send(t, box, context.Background(), answers(200, "good"))
			io.Copy(io.Discard, resp.Body)
		}, fusebox.Closed},
		{"closed unread", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(200, "good")).Body.Close()
		}, fusebox.Closed},
		{"no body", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(204, ""))
		}, fusebox.Closed},
		{"rejected", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(404, "none")).Body.Close()
		}, fusebox.Closed},
		{"upgraded", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(101, "raw"))
		}, fusebox.Closed},
		{"broken body", func(t *testing.T, box *fusebox.Box) {
			io.Copy(io.Discard, send(t, box, context.Background(), breaks(io.ErrUnexpectedEOF)).Body)
		}, fusebox.Open},
		{"failed, body left alone", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(500, "oops"))
		}, fusebox.Open},
		{"error", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), fails(io.EOF))
		}, fusebox.Open},
		{"panic", func(t *testing.T, box *fusebox.Box) {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v, want the base's panic", v)
				}
			}()
			send(t, box, context.Background(), func(*http.Request) (*http.Response, error) { panic("boom") })
		}, fusebox.Open},
		{"goexit", func(t *testing.T, box *fusebox.Box) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				send(t, box, context.Background(), func(*http.Request) (*http.Response, error) {
					runtime.Goexit()
					return nil, nil
				})
			}()
			<-done
		}, fusebox.HalfOpen},
		{"caller gave up before the header", func(t *testing.T, box *fusebox.Box) {
			ctx, cancel := context.WithCancel(context.Background())
			send(t, box, ctx, func(*http.Request) (*http.Response, error) {
				cancel()
				return nil, errors.New("operation was aborted")
			})
		}, fusebox.HalfOpen},
		{"caller gave up in the body", func(t *testing.T, box *fusebox.Box) {
			ctx, cancel := context.WithCancel(context.Background())
			resp := send(t, box, ctx, answers(200, "good"))
			cancel()
			resp.Body.Close()
		}, fusebox.HalfOpen},
		{"throttled", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answersAfter(429, "1"))
			time.Sleep(2 * time.Second)
		}, fusebox.HalfOpen},
		{"dropped until the lease lapses", func(t *testing.T, box *fusebox.Box) {
			send(t, box, context.Background(), answers(200, "good"))
			time.Sleep(lease + time.Second)
		}, fusebox.HalfOpen},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := newBox(t)
				open(t, box)
				time.Sleep(cooldown + time.Second)
				test.probe(t, box)

				if phase := status(t, box, circuit).Phase; phase != test.want {
					t.Errorf("%v after the probe, want %v", phase, test.want)
				}
				if test.want == fusebox.Open {
					time.Sleep(cooldown + time.Second)
				}
				resp := send(t, box, context.Background(), answers(200, "good"))
				if resp == nil {
					t.Fatal("the next call was refused: the slot did not come back")
				}
				resp.Body.Close()
				if phase := status(t, box, circuit).Phase; phase != fusebox.Closed {
					t.Errorf("%v after the next call, want closed", phase)
				}
			})
		})
	}
}

// send makes one request through a transport on base; nil = it returned an error.
func send(t *testing.T, box *fusebox.Box, ctx context.Context, base roundTripper) *http.Response {
	t.Helper()
	resp, err := newTransport(t, transport.Config{Box: box, Base: base}).RoundTrip(request(t, ctx))
	if err != nil {
		return nil
	}
	return resp
}

func answersAfter(status int, retryAfter string) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		resp := answer(r, status, http.NoBody)
		resp.Header.Set("Retry-After", retryAfter)
		return resp, nil
	}
}

// A probe whose body is still being read keeps the other calls out.
func TestOneProbeWhileItsBodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newBox(t)
		open(t, box)
		time.Sleep(cooldown + time.Second)
		probe := send(t, box, context.Background(), answers(200, "good"))
		rt := newTransport(t, transport.Config{Box: box, Base: answers(200, "good")})
		if _, err := rt.RoundTrip(request(t, context.Background())); !errors.Is(err, fusebox.ErrProbing) {
			t.Errorf("error %v while a probe is under way, want ErrProbing", err)
		}
		probe.Body.Close()
		if phase := status(t, box, circuit).Phase; phase != fusebox.Closed {
			t.Errorf("%v after the probe, want closed", phase)
		}
	})
}

// A 429 benches its host for as long as it asks for and is no failure; a 503 that
// names a time does both.
func TestRetryAfterThrottles(t *testing.T) {
	for code, failures := range map[int]int{429: 0, 503: 1, 529: 1} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := newBox(t)
				send(t, box, context.Background(), answersAfter(code, "2"))
				rt := newTransport(t, transport.Config{Box: box, Base: answers(200, "")})
				_, err := rt.RoundTrip(request(t, context.Background()))
				if !errors.Is(err, fusebox.ErrThrottled) {
					t.Fatalf("error %v, want ErrThrottled", err)
				}
				if left := fusebox.AsDenial(err).RetryAfter(); left <= 0 || left > 2*time.Second {
					t.Errorf("%v left, want up to 2s", left)
				}
				if s := status(t, box, circuit); s.Phase != fusebox.Closed || s.Failures != failures {
					t.Errorf("%v with %d failures, want closed with %d", s.Phase, s.Failures, failures)
				}
				time.Sleep(2*time.Second + time.Millisecond)
				if _, err := rt.RoundTrip(request(t, context.Background())); err != nil {
					t.Errorf("error %v when the time was over", err)
				}
			})
		})
	}
}

// A long answer was counted as overdue although it had been coming all along.
func TestOverdueIsWhatDoesNotBeginToAnswer(t *testing.T) {
	const overdue = 10 * time.Second
	for _, test := range []struct {
		name     string
		first    time.Duration // until the first byte; the end comes a minute after it
		failures int
	}{
		{"it begins in time", overdue / 2, 0},
		{"its header alone is no answer", overdue * 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box, err := fusebox.New(fusebox.Config{Policy: func(name string) fusebox.Policy {
					p := policy(name)
					p.Overdue = overdue
					return p
				}})
				if err != nil {
					t.Fatal(err)
				}
				out, in := io.Pipe()
				go func() {
					time.Sleep(test.first)
					io.WriteString(in, "first")
					time.Sleep(time.Minute)
					in.Close()
				}()
				rt := newTransport(t, transport.Config{Box: box, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
					return answer(r, 200, out), nil
				})})
				resp, err := rt.RoundTrip(request(t, t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Fatal(err)
				}
				if s := status(t, box, circuit); s.Failures != test.failures {
					t.Errorf("%d failures, want %d: %s", s.Failures, test.failures, s.LastError)
				}
				box.Close(t.Context())
			})
		})
	}
}

func TestHostsHaveCircuitsOfTheirOwn(t *testing.T) {
	box := newBox(t)
	open(t, box)
	rt := newTransport(t, transport.Config{Box: box, Base: answers(200, "")})
	r, _ := http.NewRequest("GET", "http://mail.example/", nil)
	if _, err := rt.RoundTrip(r); err != nil {
		t.Errorf("error %v from a host that is well", err)
	}
}

func TestHost(t *testing.T) {
	tests := []struct{ url, want string }{
		{"http://crm.example/a", "server/crm.example"},
		{"http://crm.example:80/a", "server/crm.example"},
		{"https://crm.example:443/a", "server/crm.example"},
		{"https://crm.example:80/a", "server/crm.example:80"},
		{"http://crm.example.:8080/", "server/crm.example:8080"},
		{"http://[::1]:8080/", "server/[::1]:8080"},
		{"/relative", ""},
	}
	for _, test := range tests {
		t.Run(test.url, func(t *testing.T) {
			r, err := http.NewRequest("GET", test.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := transport.Host(r); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestCircuitByRequest(t *testing.T) {
	box := newBox(t)
	name := "Tool/CRM/Lookup"
	rt := newTransport(t, transport.Config{Box: box, Base: answers(500, ""), Circuit: func(*http.Request) string { return name }})
	for range threshold {
		rt.RoundTrip(request(t, context.Background()))
	}
	if phase := status(t, box, "tool/crm/lookup").Phase; phase != fusebox.Open {
		t.Errorf("%v, want open", phase)
	}
	name = "" // no circuit: the request passes
	if _, err := rt.RoundTrip(request(t, context.Background())); err != nil {
		t.Errorf("error %v without a circuit", err)
	}
	name = "tool/../../etc"
	if _, err := rt.RoundTrip(request(t, context.Background())); !errors.Is(err, fusebox.ErrName) {
		t.Errorf("error %v for a name that is none, want ErrName", err)
	}
}

// A box that has no room for another circuit must not keep calls from a host.
func TestFullBoxLetsCallsPass(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{Policy: policy, MaxCircuits: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	open(t, box)
	rt := newTransport(t, transport.Config{Box: box, Base: answers(200, "")})
	r, _ := http.NewRequest("GET", "http://mail.example/", nil)
	if _, err := rt.RoundTrip(r); err != nil {
		t.Errorf("error %v, want the call to pass", err)
	}
}

// A connection that was upgraded is the caller's: it must stay writable.
func TestUpgradedBodyStaysWritable(t *testing.T) {
	raw := struct{ io.ReadWriteCloser }{}
	box := newBox(t)
	resp := send(t, box, context.Background(), func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusSwitchingProtocols, raw), nil
	})
	if _, ok := resp.Body.(io.Writer); !ok {
		t.Errorf("body is a %T that cannot be written to", resp.Body)
	}
}

func TestCloseIdleConnections(t *testing.T) {
	base := &idleRecorder{}
	client := &http.Client{Transport: newTransport(t, transport.Config{Box: newBox(t), Base: base})}
	client.CloseIdleConnections()
	if !base.closed {
		t.Error("the base kept its idle connections")
	}
}

type idleRecorder struct {
	http.RoundTripper
	closed bool
}

func (i *idleRecorder) CloseIdleConnections() { i.closed = true }
