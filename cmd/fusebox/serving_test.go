package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// limit bounds every wait of these tests; none of them comes near it.
const limit = time.Minute

// serving is a `fusebox up` that runs.
type serving struct {
	t              *testing.T
	gateway, admin string // their URLs
	first          string // the first line on standard output
	stderr         *safeBuffer
	cmd            *exec.Cmd
	ended          chan struct{} // closed when it has
}

// safeBuffer is a buffer that a process fills while a test reads it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// up starts the program on free ports and waits until it says where it listens.
func (p *place) up(args ...string) *serving {
	p.t.Helper()
	args = append([]string{"up", "--json", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)
	s := &serving{t: p.t, stderr: &safeBuffer{}, ended: make(chan struct{})}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = p.dir, p.env, s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.stop() })
	reader := bufio.NewReader(stdout)
	first := make(chan string, 1)
	go func() {
		line, _ := reader.ReadString('\n')
		first <- line
		io.Copy(io.Discard, reader)
		s.cmd.Wait()
		close(s.ended)
	}()
	select {
	case s.first = <-first:
	case <-time.After(limit):
		p.t.Fatalf("up did not say where it listens: %s", s.stderr)
	}
	var addresses struct{ Gateway, Admin string }
	if err := json.Unmarshal([]byte(s.first), &addresses); err != nil {
		p.t.Fatalf("the first line is %q: %v\n%s", s.first, err, s.stderr)
	}
	s.gateway, s.admin = addresses.Gateway, addresses.Admin
	return s
}

// interrupt asks the program to end.
func (s *serving) interrupt(sig os.Signal) {
	s.t.Helper()
	if runtime.GOOS == "windows" {
		sig = os.Kill // there are no others
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
}

// wait waits for the program's end and returns its exit code.
func (s *serving) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.cmd.Process.Kill()
		s.t.Fatalf("up did not end: %s", s.stderr)
	}
	return s.cmd.ProcessState.ExitCode()
}

// stop ends the program, if it runs still.
func (s *serving) stop() int {
	s.t.Helper()
	select {
	case <-s.ended:
	default:
		s.interrupt(os.Interrupt)
	}
	return s.wait()
}

// answer is what the gateway answered.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends one chat completion.
func (s *serving) ask(model string) answer {
	s.t.Helper()
	a, err := s.tryAsk(model)
	if err != nil {
		s.t.Fatalf("asking the gateway: %v\n%s", err, s.stderr)
	}
	return a
}

func (s *serving) tryAsk(model string) (answer, error) {
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"hello"}]}`
	client := &http.Client{Timeout: limit}
	r, err := client.Post(s.gateway+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return answer{r.StatusCode, r.Header, string(b)}, err
}

// get reads from the admin listener.
func (s *serving) get(path string) string {
	s.t.Helper()
	r, err := http.Get(s.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %d %v %s", path, r.StatusCode, err, b)
	}
	return string(b)
}

// circuit is the contract's status object.
type circuit struct {
	Circuit        string   `json:"circuit"`
	Phase          string   `json:"phase"`
	Health         string   `json:"health"`
	Version        int      `json:"version"`
	Failures       int      `json:"failures"`
	RetryAfter     float64  `json:"retry_after_s"`
	Since          *string  `json:"since"`
	Reason         string   `json:"reason"`
	LastError      string   `json:"last_error"`
	Latency        *float64 `json:"latency_ms"`
	CheckedAt      *string  `json:"checked_at"`
	ThrottledUntil *string  `json:"throttled_until"`
	Held           *string  `json:"held"`
	Denied         int      `json:"denied"`
	Local          bool     `json:"local"`
}

type statusReport struct {
	Circuits []circuit         `json:"circuits"`
	Runs     []json.RawMessage `json:"runs"`
}

func (r *statusReport) find(name string) circuit {
	for _, c := range r.Circuits {
		if c.Circuit == name {
			return c
		}
	}
	return circuit{}
}

// circuits reads /v1/circuits.
func (s *serving) circuits() *statusReport {
	s.t.Helper()
	var r statusReport
	if err := json.Unmarshal([]byte(s.get("/v1/circuits")), &r); err != nil {
		s.t.Fatal(err)
	}
	return &r
}

// status runs fusebox status.
func (p *place) status(circuits ...string) *statusReport {
	p.t.Helper()
	var r statusReport
	p.must(append([]string{"status", "--json"}, circuits...)...).decode(p.t, &r)
	return &r
}

// eventually asks until it is so, because what another process does takes a
// moment to arrive.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// upstream is a scripted backend of the OpenAI dialect.
type upstream struct {
	*httptest.Server

	mu    sync.Mutex
	calls int
	next  func(w http.ResponseWriter, r *http.Request) // nil = a good answer
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			io.WriteString(w, `{"object":"list","data":[]}`)
			return
		}
		u.mu.Lock()
		u.calls++
		next := u.next
		u.mu.Unlock()
		if next != nil {
			next(w, r)
			return
		}
		answerWell(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func answerWell(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
}

func answerBusy(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
}

func (u *upstream) do(next func(http.ResponseWriter, *http.Request)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = next
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls
}
