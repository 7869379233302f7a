package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// bare is the least that a forwarder in Go can do: read the body, send it on,
// pass back what comes. The gateway is measured beside it.
func bare(target string) http.Handler {
	base, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	pool := sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		to := *base
		to.Path = r.URL.Path
		request, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
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
		buf := *pooled
		for {
			n, err := response.Body.Read(buf)
			if n > 0 {
				w.Write(buf[:n])
				w.(http.Flusher).Flush()
			}
			if err != nil {
				return
			}
		}
	})
}

func BenchmarkGatewayPlain(b *testing.B) {
	answer := chatAnswer(strings.Repeat("word ", 200))
	compare(b, plainChat, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	})
}

func BenchmarkGatewayStream(b *testing.B) {
	event := []byte(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n")
	compare(b, streamedChat, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 100 {
			w.Write(event)
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
}

// compare measures a bare forwarder and the gateway on the same upstream.
func compare(b *testing.B, body string, does http.HandlerFunc) {
	upstream := httptest.NewServer(does)
	defer upstream.Close()
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Box: box, Backends: []gateway.Backend{{Name: "a", URL: upstream.URL + "/v1", Dialect: gateway.OpenAI}}})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"bare", bare(upstream.URL)}, {"gateway", g}} {
		b.Run(c.name, func(b *testing.B) {
			front := httptest.NewServer(c.handler)
			defer front.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					response, err := client.Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode != 200 {
						b.Errorf("status %d", response.StatusCode)
						return
					}
				}
			})
		})
	}
}
