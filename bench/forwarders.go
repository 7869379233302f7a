package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// serveHere serves h on a free port, says where, and does not return.
func serveHere(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, h)
}

// streamEvents is how many tokens a streamed answer has.
const streamEvents = 50

// upstream answers as a model API does, at once.
func upstream() http.Handler {
	whole := []byte(`{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 200) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":200,"total_tokens":209}}`)
	event := []byte(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
	last := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range streamEvents {
			w.Write(event)
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, last)
	})
}

// transport is what both forwarders of Go's standard library use.
func transport() *http.Transport {
	return &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, DisableCompression: true}
}

// bareForwarder is the least that a gateway in Go can do: read the body, since
// it may have to be sent again, send it on, and pass back what comes.
func bareForwarder(target string) http.Handler {
	pool := sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
	transport := transport()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+target+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			return
		}
		request.Header = r.Header.Clone()
		response, err := transport.RoundTrip(request)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		pooled := pool.Get().(*[]byte)
		defer pool.Put(pooled)
		flush := response.ContentLength < 0
		for {
			n, err := response.Body.Read(*pooled)
			if n > 0 {
				w.Write((*pooled)[:n])
				if flush {
					w.(http.Flusher).Flush()
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// reverseProxy is the standard library's.
func reverseProxy(target string) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     transport(),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // what it breaks is counted
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
	}
}
