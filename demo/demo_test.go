package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheScriptGoesThroughEveryFaultAndRecovers(t *testing.T) {
	for _, step := range []struct {
		at   time.Duration
		does act
	}{
		{0, answers}, {9 * time.Second, throttles}, {13 * time.Second, answers}, {17 * time.Second, errs},
		{21 * time.Second, hangs}, {25 * time.Second, breaks}, {39 * time.Second, answers}, {49 * time.Second, throttles},
	} {
		if does := actAt(step.at); does != step.does {
			t.Errorf("after %v it %s, want it %s", step.at, does, step.does)
		}
	}
	if err := Policy().Validate(); err != nil {
		t.Error(err)
	}
}

// post sends one chat to the flaky backend at a time of its script.
func post(t *testing.T, at time.Duration, body string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d, err := start(ctx, func() time.Duration { return at })
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", d.Backends[0].URL+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	return response, string(got), err
}

func TestEveryFaultLooksLikeARealOne(t *testing.T) {
	const plain, streamed = `{"model":"demo"}`, `{"model":"demo","stream":true}`
	if r, body, err := post(t, 0, plain); err != nil || r.StatusCode != 200 || !strings.Contains(body, "fusebox demo") {
		t.Errorf("answers: %v, %s", err, body)
	}
	if r, body, err := post(t, 0, streamed); err != nil || r.StatusCode != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("streams: %v, %s", err, body)
	}
	if r, body, err := post(t, 9*time.Second, plain); err != nil || r.StatusCode != 429 || r.Header.Get("Retry-After") != "4" {
		t.Errorf("throttles: %v, %s", err, body)
	}
	if r, body, err := post(t, 17*time.Second, plain); err != nil || r.StatusCode != 500 {
		t.Errorf("errs: %v, %s", err, body)
	}
	if _, body, err := post(t, 25*time.Second, plain); err == nil {
		t.Errorf("breaks, but the answer is whole: %s", body)
	}
	if _, body, err := post(t, 25*time.Second, streamed); err == nil || strings.Contains(body, "[DONE]") {
		t.Errorf("breaks, but the stream is whole: %s", body)
	}
	if r, body, err := post(t, 0, "no JSON"); err != nil || r.StatusCode != 400 {
		t.Errorf("no JSON: %v, %s", err, body)
	}
}

func TestTheCallerCallsAndEndsWithItsContext(t *testing.T) {
	calls := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case calls <- r:
		default:
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Call(ctx, server.URL, "token"); close(ended) }()
	for range 2 {
		select {
		case r := <-calls:
			if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer token" {
				t.Errorf("called %s with %q", r.URL.Path, r.Header.Get("Authorization"))
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no call came")
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the caller goes on")
	}
}
