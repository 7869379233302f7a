package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// act is what a scripted backend does with a call.
type act string

const (
	answers   act = "answers"
	throttles act = "throttles" // 429 with Retry-After
	errs      act = "errs"      // 500
	hangs     act = "hangs"     // takes the call, says nothing, and drops it
	breaks    act = "breaks"    // begins an answer and breaks off
)

// round is demo-flaky's script: what it does from a second on.
var round = []struct {
	from time.Duration
	does act
}{
	{0, answers},
	{8 * time.Second, throttles},
	{12 * time.Second, answers},
	{16 * time.Second, errs},
	{20 * time.Second, hangs},
	{24 * time.Second, breaks},
	{31 * time.Second, answers},
}

const (
	roundTime    = 40 * time.Second
	throttleTime = 4 // seconds that a 429 asks for
	hangTime     = 3 * time.Second
	wordTime     = 40 * time.Millisecond // between the words of a stream
)

// actAt is what demo-flaky does at a time since its start.
func actAt(elapsed time.Duration) act {
	at := elapsed % roundTime
	does := answers
	for _, step := range round {
		if at >= step.from {
			does = step.does
		}
	}
	return does
}

// scripted is one backend.
type scripted struct {
	name string
	act  func() act
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/v1/models" {
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","created":0,"owned_by":"fusebox-demo"}]}`, Model)
		return
	}
	if r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
		fail(w, http.StatusNotFound, "not_found", "The demo serves POST /v1/chat/completions and GET /v1/models.")
		return
	}
	var request struct{ Stream bool }
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&request); err != nil {
		fail(w, http.StatusBadRequest, "invalid_body", "The body is not JSON.")
		return
	}
	does := s.act()
	switch does {
	case throttles:
		w.Header().Set("Retry-After", strconv.Itoa(throttleTime))
		fail(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Demo: too many requests.")
		return
	case errs:
		fail(w, http.StatusInternalServerError, "server_error", "Demo: something broke.")
		return
	case hangs:
		pause(r, hangTime)
		panic(http.ErrAbortHandler)
	}
	if request.Stream {
		s.stream(w, r, does)
	} else {
		s.whole(w, does)
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%q,"type":"demo_error","param":null,"code":%q}}`, message, code)
}

// text is what every answer says.
func (s *scripted) text() string {
	return "This is the fusebox demo: no model answered, but the script of " + s.name + "."
}

func (s *scripted) whole(w http.ResponseWriter, does act) {
	answer := fmt.Sprintf(`{"id":"demo","object":"chat.completion","created":%d,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":15,"total_tokens":16}}`,
		time.Now().Unix(), s.name, s.text())
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	if does == breaks {
		io.WriteString(w, answer[:len(answer)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, answer)
}

func (s *scripted) stream(w http.ResponseWriter, r *http.Request, does act) {
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(w, `data: {"id":"demo","object":"chat.completion.chunk","created":%d,"model":%q,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n",
			time.Now().Unix(), s.name, delta, finish)
		w.(http.Flusher).Flush()
	}
	chunk(`{"role":"assistant","content":""}`, "null")
	words := strings.Fields(s.text())
	for i, word := range words {
		if does == breaks && i == len(words)/2 {
			panic(http.ErrAbortHandler)
		}
		chunk(fmt.Sprintf(`{"content":%q}`, word+" "), "null")
		if !pause(r, wordTime) {
			return
		}
	}
	chunk(`{}`, `"stop"`)
	io.WriteString(w, "data: [DONE]\n\n")
}

// pause waits, and reports whether the caller is still there.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
