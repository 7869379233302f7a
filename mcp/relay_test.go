package mcp_test

import (
	"io"
	"net/http"
	"testing"
)

const lookup = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lookup","arguments":{}}}`

// A client is told at once that its call runs, as its server does.
func TestTheHeadOfAStreamDoesNotWaitForItsFirstEvent(t *testing.T) {
	opened := make(chan struct{})
	r := remoteServer(t, options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-opened
		io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	})
	resp := r.open(http.MethodPost, lookup)
	close(opened)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || len(body) == 0 {
		t.Errorf("%s: %v", body, err)
	}
}

// What belongs to one connection stays there, all else passes, trailers too.
func TestHeadersOfAMessage(t *testing.T) {
	r := remoteServer(t, options{}, func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{
			"Upgrade": "", "X-Hop": "", "X-Forwarded-For": "", "Expect": "", "X-Kept": "yes", "User-Agent": "some client",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: have %q, want %q", name, got, want)
			}
		}
		w.Header().Set("Connection", "X-Own")
		w.Header().Set("X-Own", "no")
		w.Header().Set("X-Answer", "yes")
		w.Header().Set("Trailer", "X-After")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		w.(http.Flusher).Flush()
		w.Header().Set("X-After", "yes")
	})
	resp := r.open(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Connection", "Upgrade, X-Hop", "Upgrade", "h2c",
		"X-Hop", "no", "X-Forwarded-For", "198.51.100.7", "X-Kept", "yes", "User-Agent", "some client")
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if h := resp.Header; h.Get("X-Own") != "" || h.Get("X-Answer") != "yes" || resp.Trailer.Get("X-After") != "yes" {
		t.Errorf("have %v, trailers %v", h, resp.Trailer)
	}
}
