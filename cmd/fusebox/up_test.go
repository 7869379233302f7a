package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oneAttempt keeps a call from being repeated, so that each is one failure.
const oneAttempt = "retry: {attempts: 1}\n"

// serveOne writes a configuration of one backend.
func (p *place) serveOne(u *upstream, more string) {
	p.write("fusebox.yaml", fmt.Sprintf(`%s
backends:
  only: {url: "%s/v1", dialect: openai}
routes:
  - {match: "*", backends: [only]}
`, more, u.URL))
}

func TestUpSaysWhereItListens(t *testing.T) {
	p := newPlace(t)
	p.serveOne(newUpstream(t), "")
	s := p.up()
	if want := fmt.Sprintf("{\"gateway\":%q,\"admin\":%q}\n", s.gateway, s.admin); s.first != want {
		t.Errorf("with --json: want %q, have %q", want, s.first)
	}
	if got := s.get("/healthz"); got != "ok\n" {
		t.Errorf("/healthz: %q", got)
	}
	if a := s.ask("m"); a.status != http.StatusOK || !strings.Contains(a.body, `"hi"`) {
		t.Errorf("the gateway answered %d %s", a.status, a.body)
	}
	if code := s.stop(); code != exitOK {
		t.Errorf("want exit code 0, have %d: %s", code, s.stderr)
	}
}

func TestUpSaysWhereItListensInWords(t *testing.T) {
	p := newPlace(t)
	p.serveOne(newUpstream(t), "")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := p.command(ctx, "up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, _ := stdout.Read(line)
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	first := string(line[:n])
	if !strings.HasPrefix(first, "fusebox is up: gateway http://127.0.0.1:") || !strings.Contains(first, ", admin http://127.0.0.1:") {
		t.Errorf("the first line is %q", first)
	}
}

func TestUpRefusesToStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name, file string
		args       []string
		want       int
		says       string
	}{
		{"gateway off loopback without a token", "", []string{"--listen", "0.0.0.0:0"}, exitConfig, "token"},
		{"admin off loopback without a token", "", []string{"--admin", ":0"}, exitConfig, "token"},
		{"an address that is none", "", []string{"--listen", "4040"}, exitConfig, "host:port"},
		{"an address that is taken", "", []string{"--admin", taken.Addr().String()}, exitFailed, "port 0 picks a free one"},
		{"a key that is not set", "backends:\n  paid: {url: \"http://127.0.0.1:1/v1\", dialect: openai, key: {env: NOT_SET_ANYWHERE}}\nroutes: [{match: \"*\", backends: [paid]}]\n",
			nil, exitConfig, "NOT_SET_ANYWHERE"},
		{"a file without backends", "mode: enforce\n", nil, exitConfig, "--demo"},
		{"an unknown flag", "", []string{"--demoo"}, exitUsage, "--demoo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			if p.serveOne(newUpstream(t), ""); tt.file != "" {
				p.write("fusebox.yaml", tt.file)
			}
			r := p.run(append([]string{"up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, tt.args...)...)
			if r.code != tt.want || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("want exit code %d and %q, have %d and %q", tt.want, tt.says, r.code, r.stderr)
			}
			if r.stdout != "" {
				t.Errorf("it said %q although it does not serve", r.stdout)
			}
		})
	}
}

// A signal lets what is under way come to its end, and what it showed is kept.
func TestUpDrainsAndRecords(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			p, u := newPlace(t), newUpstream(t)
			p.serveOne(u, "")
			s := p.up()
			arrived, goOn := make(chan struct{}), make(chan struct{})
			u.do(func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-goOn
				answerWell(w, r)
			})
			answered := make(chan answer, 1)
			go func() {
				a, _ := s.tryAsk("m")
				answered <- a
			}()
			<-arrived
			s.interrupt(sig)
			eventually(t, "the listener is closed", func() bool {
				c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.gateway, "http://"), time.Second)
				if err == nil {
					c.Close()
				}
				return err != nil
			})
			close(goOn)
			if a := <-answered; a.status != http.StatusOK {
				t.Errorf("the request under way was answered %d %s", a.status, a.body)
			}
			if code := s.wait(); code != exitOK {
				t.Errorf("want exit code 0, have %d: %s", code, s.stderr)
			}
			if c := p.status().find("model/only/m"); c.Health != "up" || c.CheckedAt == nil {
				t.Errorf("the success was not recorded: %+v", c)
			}
		})
	}
}

func TestUpDrainIsBounded(t *testing.T) {
	t.Parallel()
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, "")
	s := p.up("--drain", "50ms")
	arrived, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	u.do(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-goOn
	})
	go s.tryAsk("m")
	<-arrived
	s.interrupt(os.Interrupt)
	if code := s.wait(); code != exitOK {
		t.Errorf("want exit code 0, have %d: %s", code, s.stderr)
	}
}

// A stream that the drain time cuts off ended like one whose client had left: as
// a connection that broke, without a word, and was recorded so.
func TestUpTellsClientsThatItCutsThemOff(t *testing.T) {
	t.Parallel()
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, "")
	s := p.up("--drain", "50ms")
	arrived := make(chan struct{})
	u.do(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"the beginning"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		close(arrived)
		<-r.Context().Done()
	})
	cut := make(chan answer, 1)
	go func() {
		r, err := http.Post(s.gateway+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
		if err != nil {
			cut <- answer{body: err.Error()}
			return
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err == nil {
			b = append(b, " and a clean end"...)
		}
		cut <- answer{r.StatusCode, r.Header, string(b)}
	}()
	<-arrived
	s.interrupt(os.Interrupt)
	a := <-cut
	if !strings.Contains(a.body, "the beginning") || !strings.Contains(a.body, "The answer broke off: the gateway is being stopped") || strings.Contains(a.body, "clean end") {
		t.Errorf("the client was sent %d %s", a.status, a.body)
	}
	if code := s.wait(); code != exitOK {
		t.Errorf("want exit code 0, have %d: %s", code, s.stderr)
	}
	if why := p.must("why", "-v", "model/only/m").stdout; strings.Contains(why, "went away") || !strings.Contains(why, "the gateway is being stopped") {
		t.Errorf("the evidence says: %s", why)
	}
}

// localModel is the circuit of the local model of examples/local-first.yaml.
const localModel = "model/local/llama3.2"

// localFirst serves examples/local-first.yaml with scripted backends in the
// places of its local and its paid one.
func localFirst(t *testing.T) (p *place, s *serving, local, paid *upstream) {
	p, local, paid = newPlace(t), newUpstream(t), newUpstream(t)
	example, err := os.ReadFile("../../examples/local-first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(example)
	for _, there := range []struct{ url, ours string }{{"http://127.0.0.1:11434/v1", local.URL + "/v1"}, {"https://api.openai.com/v1", paid.URL + "/v1"}} {
		if !strings.Contains(text, there.url) {
			t.Fatalf("the example has no backend at %s", there.url)
		}
		text = strings.ReplaceAll(text, there.url, there.ours)
	}
	p.write("fusebox.yaml", text)
	p.env = append(p.env, "OPENAI_API_KEY=a-key-of-the-test")
	return p, p.up(), local, paid
}

// expect asks once and wants to be answered by backend, after that many calls
// of the local and the paid one altogether.
func expect(t *testing.T, s *serving, what, backend string, local, paid *upstream, locals, paids int) {
	t.Helper()
	a := s.ask("m")
	if a.status != http.StatusOK || a.header.Get("Fusebox-Backend") != backend {
		t.Errorf("%s: want an answer of %s, have %d by %q: %s", what, backend, a.status, a.header.Get("Fusebox-Backend"), a.body)
	}
	if local.count() != locals || paid.count() != paids {
		t.Errorf("%s: want %d local and %d paid calls so far, have %d and %d", what, locals, paids, local.count(), paid.count())
	}
}

// One failure is not an outage: a laptop waking from sleep produces exactly one.
func TestLocalFirst(t *testing.T) {
	t.Parallel()
	_, s, local, paid := localFirst(t)
	expect(t, s, "the first request, though nothing was checked", "local", local, paid, 1, 0)
	local.do(answerBusy)
	expect(t, s, "one failed call is answered elsewhere", "paid", local, paid, 2, 1)
	local.do(nil)
	expect(t, s, "and does not send the next call there", "local", local, paid, 3, 1)
	local.do(answerBusy)
	expect(t, s, "a success in between has reset the count", "paid", local, paid, 4, 2)
	if c := s.circuits().find(localModel); c.Phase != "closed" || c.Failures != 1 {
		t.Errorf("want it closed with 1 failure, have %+v", c)
	}
	expect(t, s, "the second failure in a row", "paid", local, paid, 5, 3)
	local.do(nil)
	expect(t, s, "sends the next call to the paid one", "paid", local, paid, 5, 4)
	for _, want := range []string{`fusebox_request_duration_seconds_count{outcome="degraded"} 4`, `fusebox_request_duration_seconds_count{outcome="ok"} 2`} {
		// A request is counted after its answer, which may be read before that.
		eventually(t, "the metrics say "+want, func() bool { return strings.Contains(s.get("/metrics"), want) })
	}
	if c := s.circuits().find(localModel); c.Phase != "open" || c.Health != "down" || c.Failures != 2 {
		t.Errorf("want it open with 2 failures, have %+v", c)
	}
}

// What an operator does reaches a running gateway, and every reader says the same.
func TestOperatorsReachARunningGateway(t *testing.T) {
	t.Parallel()
	p, s, local, paid := localFirst(t)
	const name = localModel
	expect(t, s, "at first", "local", local, paid, 1, 0)

	agree := func(phase, held string) {
		t.Helper()
		readers := map[string]func() circuit{
			"/v1/circuits": func() circuit { return s.circuits().find(name) },
			"status":       func() circuit { return p.status(name).find(name) },
			"doctor": func() circuit {
				var r statusReport
				p.run("doctor", "--json").decode(t, &r)
				return r.find(name)
			},
		}
		for reader, read := range readers {
			c := read()
			heldTo := ""
			if c.Held != nil {
				heldTo = *c.Held
			}
			if c.Phase != phase || heldTo != held {
				t.Errorf("%s: want phase %s, held %q, have %+v", reader, phase, held, c)
			}
		}
		metric := fmt.Sprintf("fusebox_circuit_state{circuit=%q,phase=%q} 1", name, phase)
		eventually(t, metric, func() bool { return strings.Contains(s.get("/metrics"), metric) })
	}
	goesTo := func(backend string) {
		t.Helper()
		eventually(t, "calls go to "+backend, func() bool { return s.ask("m").header.Get("Fusebox-Backend") == backend })
	}

	p.must("trip", name, "--reason", "maintenance")
	agree("open", "")
	goesTo("paid")
	p.must("reset", name)
	agree("closed", "")
	goesTo("local")
	p.must("hold", "open", name, "--for", "1h", "--reason", "invoice dispute")
	agree("open", "open")
	goesTo("paid")
	for _, refused := range []string{"trip", "reset"} {
		if r := p.run(refused, name); r.code != exitFailed || !strings.Contains(r.stderr, "hold --lift") || !strings.Contains(r.stderr, "invoice dispute") {
			t.Errorf("%s while held: exit code %d, %q", refused, r.code, r.stderr)
		}
	}
	p.must("hold", "--lift", name)
	p.must("reset", name)
	goesTo("local")
	p.must("hold", "closed", name)
	agree("closed", "closed")
	p.must("hold", "--lift", name)
	p.must("throttle", name, "--for", "10m")
	agree("closed", "")
	goesTo("paid")
	p.must("throttle", "--lift", name)
	goesTo("local")
}

func TestUpObserves(t *testing.T) {
	t.Parallel()
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, oneAttempt+"circuits: {model/*: {trip: [{streak: 1}], cooldown: {after: 1h}}}\n")
	s := p.up("--observe")
	u.do(answerBusy)
	for range 4 {
		s.ask("m")
	}
	if u.count() != 4 {
		t.Errorf("want all 4 calls to go through, have %d", u.count())
	}
	if !strings.Contains(s.get("/metrics"), `fusebox_observed_denials_total{circuit="model/only/m",reason="open"}`) {
		t.Error("what would have been refused is not counted")
	}
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serveOne(newUpstream(t), "admin: {token: {env: ADMIN_TOKEN}}\n")
	p.env = append(p.env, "ADMIN_TOKEN=a-secret-of-the-test")
	s := p.up()
	r, err := http.Get(s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: want 401, have %d", r.StatusCode)
	}
	s.stop()
	if strings.Contains(s.stderr.String(), "a-secret-of-the-test") {
		t.Error("the token stands in the log")
	}
}

// With nothing configured and nothing found there is a demo, and it moves.
func TestUpDemoShowsCircuitsMove(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.up("--demo")
	const flaky = "model/demo-flaky/demo"
	eventually(t, "demo-flaky's circuit is known", func() bool { return s.circuits().find(flaky).Health == "up" })
	eventually(t, "it is throttled or opens", func() bool {
		c := s.circuits().find(flaky)
		return c.ThrottledUntil != nil || c.Phase != "closed"
	})
	eventually(t, "demo-steady takes over", func() bool { return s.circuits().find("model/demo-steady/demo").Health == "up" })
	eventually(t, "demo-flaky's circuit opens", func() bool { return s.circuits().find(flaky).Phase != "closed" })
	if words := s.stderr.String(); !strings.Contains(words, "demo: two scripted backends") {
		t.Errorf("it does not say that it is a demo: %s", words)
	}
	if r := p.must("why", flaky); !strings.Contains(r.stdout, "closed → open") {
		t.Errorf("why does not tell how it opened: %s", r.stdout)
	}
	if r := p.must("events", flaky); !strings.Contains(r.stdout, "closed → open") {
		t.Errorf("events lack it: %s", r.stdout)
	}
	if code := s.stop(); code != exitOK {
		t.Errorf("want exit code 0, have %d: %s", code, s.stderr)
	}
}

// A store that is gone delays no call and refuses none: the circuit goes on
// with what it knows, says so, and re-joins by itself.
func TestUpGoesOnWithoutItsStore(t *testing.T) {
	t.Parallel()
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, oneAttempt+"circuits: {model/*: {trip: [{streak: 2}], cooldown: {after: 1h}}}\n")
	s := p.up()
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("with the store: %d %s", a.status, a.body)
	}
	eventually(t, "the store knows of it", func() bool {
		s.circuits() // which brings to the store what was not reported yet
		return p.status().find("model/only/m").Health == "up"
	})

	away := p.storeDir() + ".away"
	if err := os.Rename(p.storeDir(), away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.storeDir(), []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.do(answerBusy)
	for range 2 {
		s.ask("m")
	}
	called := u.count()
	if a := s.ask("m"); a.status != http.StatusServiceUnavailable && u.count() > called+1 { // one last resort is allowed
		t.Errorf("without the store two failures open the circuit, have %d %s", a.status, a.body)
	}
	eventually(t, "it says that it is local", func() bool {
		c := s.circuits().find("model/only/m")
		return c.Local && c.Phase == "open" && strings.Contains(s.get("/metrics"), "fusebox_store_up 0")
	})
	if !strings.Contains(s.stderr.String(), "out of reach") {
		t.Errorf("the log does not tell: %s", s.stderr)
	}

	if err := os.Remove(p.storeDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, p.storeDir()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has re-joined, and the store has what happened", func() bool {
		c := p.status().find("model/only/m")
		return c.Phase == "open" && c.Failures == 2 && strings.Contains(s.get("/metrics"), "fusebox_store_up 1")
	})
}

// Without a file, what is found is served: here a key in the environment.
func TestUpServesWhatItFinds(t *testing.T) {
	p := newPlace(t)
	p.env = append(p.env, "ANTHROPIC_API_KEY=a-key-of-the-test")
	s := p.up()
	s.stop()
	words := s.stderr.String()
	if !strings.Contains(words, "no fusebox.yaml: serving what was found on this machine") ||
		!strings.Contains(words, "anthropic (https://api.anthropic.com/v1)") || strings.Contains(words, "a-key-of-the-test") {
		t.Errorf("it says %s", words)
	}
}
