package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// until waits for a condition that the program brings about.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// A changed file is taken up whole: another backend, another policy; what is
// known of the circuits stays. A bad one changes nothing, and says why.
func TestUpTakesUpAChangedFile(t *testing.T) {
	first, second := newUpstream(t), newUpstream(t)
	serve := func(u *upstream, streak int) string {
		return fmt.Sprintf("%scircuits: {\"model/*\": {trip: [{streak: %d}], cooldown: {after: 1h}}}\n"+
			"backends: {only: {url: \"%s/v1\", dialect: openai}}\nroutes: [{match: \"*\", backends: [only]}]\n", oneAttempt, streak, u.URL)
	}
	p := newPlace(t)
	path := p.write("fusebox.yaml", serve(first, 5))
	s := p.up()
	p.must("hold", "open", "model/only/broken", "--reason", "bad release")
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("the first backend answered %d %s", a.status, a.body)
	}
	first.Close()

	p.write("fusebox.yaml", "backends: {only: {url: nonsense}}\n")
	until(t, "the bad file to be seen", func() bool { return strings.Contains(s.stderr.String(), "the configuration stays as it was") })
	if said := s.stderr.String(); !strings.Contains(said, path+":1:23") && !strings.Contains(said, "fusebox.yaml:1:") {
		t.Errorf("it does not say where: %s", said)
	}
	if a := s.ask("m"); a.status != http.StatusBadGateway {
		t.Fatalf("under the old configuration the first backend is gone; the answer is %d %s", a.status, a.body)
	}

	p.write("fusebox.yaml", serve(second, 2))
	until(t, "the good file to hold", func() bool { return strings.Contains(s.stderr.String(), "was read anew and holds") })
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("the second backend answered %d %s", a.status, a.body)
	}
	if a := s.ask("broken"); a.status != http.StatusServiceUnavailable {
		t.Fatalf("a circuit that is held open answered %d %s", a.status, a.body)
	}
	second.Close()
	for range 2 { // by the new policy that opens it
		if a := s.ask("m"); a.status != http.StatusBadGateway {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	until(t, "two failures to open the circuit by the new policy", func() bool {
		return strings.Contains(p.must("status", "model/only/m").stdout, "open for")
	})
	if code := s.stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, s.stderr)
	}
}

// A request that is under way when the file changes ends as it began, with the
// backend that it has; the next one has the new one.
func TestARequestUnderWayEndsAsItBeganWhenTheFileChanges(t *testing.T) {
	first, second := newUpstream(t), newUpstream(t)
	p := newPlace(t)
	p.serveOne(first, "")
	s := p.up()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	first.do(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"the beginning"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		close(arrived)
		<-goOn
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"and the end"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	got := make(chan string, 1)
	go func() {
		r, err := http.Post(s.gateway+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","stream":true,"messages":[]}`))
		if err != nil {
			got <- err.Error()
			return
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		got <- fmt.Sprint(string(b), err)
	}()
	<-arrived
	p.serveOne(second, "")
	until(t, "the file to hold", func() bool { return strings.Contains(s.stderr.String(), "was read anew and holds") })
	if a := s.ask("m"); a.status != http.StatusOK || second.count() != 1 || first.count() != 1 {
		t.Errorf("%d; the first was called %d times, the second %d", a.status, first.count(), second.count())
	}
	close(goOn)
	if text := <-got; !strings.Contains(text, "the beginning") || !strings.HasSuffix(text, "[DONE]\n\n<nil>") {
		t.Errorf("the request under way: %s", text)
	}
}

// What needs a new process was passed over without a word.
func TestAReloadSaysWhatNeedsANewProcess(t *testing.T) {
	u := newUpstream(t)
	p := newPlace(t)
	p.serveOne(u, "")
	s := p.up("--observe")
	said := func(more string, want string) {
		t.Helper()
		before := len(s.stderr.String())
		p.serveOne(u, more)
		got, whole := "", false
		until(t, "the file to hold", func() bool {
			_, rest, _ := strings.Cut(s.stderr.String()[before:], "was read anew and holds")
			got, _, whole = strings.Cut(rest, "\n")
			return whole
		})
		if want != "" {
			want = ", but what it says of these holds only once fusebox is started anew: " + want
		}
		if got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
	}
	said("retry: {attempts: 3}", "")
	said("mode: observe\ngateway: {listen: 127.0.0.1:4999}\n", "") // flags say otherwise anyway
	said("gateway: {token: {file: fusebox.yaml}}\nstore: file:///nowhere\nworker: w\nthrash: {repeats: 5}\ncircuits: {model/only/*: {on_open: stop_run}}\n",
		"gateway, store, worker, thrash, unit, on_open and guard of circuits")
}

// A key that was mended stayed refused for as long as its circuit was open.
func TestAReloadLetsARefusedKeyTryAgain(t *testing.T) {
	u := newUpstream(t)
	u.do(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			http.Error(w, `{"error":{"message":"no such key","code":"invalid_api_key"}}`, http.StatusUnauthorized)
			return
		}
		answerWell(w, r)
	})
	p := newPlace(t)
	p.write("key", "bad")
	serve := func(more string) string {
		return p.write("fusebox.yaml", fmt.Sprintf("%s\nbackends: {only: {url: \"%s/v1\", dialect: openai, key: {file: key}}}\n"+
			"circuits: {\"*\": {cooldown: {after: 1h, max: 2h}}}\n", more, u.URL))
	}
	serve("")
	s := p.up()
	for range 3 {
		if a := s.ask("m"); a.status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if u.count() != 1 {
		t.Fatalf("a refused key was shown %d times", u.count())
	}
	p.write("key", "good")
	serve("# the key is mended")
	until(t, "the file to hold", func() bool { return strings.Contains(s.stderr.String(), "was read anew and holds") })
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}
