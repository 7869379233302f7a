package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	callEvery   = 500 * time.Millisecond
	callTime    = 30 * time.Second
	callsAtOnce = 8
)

// Call calls a gateway about twice a second, streamed and not in turn, until
// ctx ends. gateway is its address, as "http://127.0.0.1:4040"; token is what
// it asks for, "" for none. What comes back is read and dropped: the gateway's
// own status is where to look.
func Call(ctx context.Context, gateway, token string) {
	client := &http.Client{Timeout: callTime}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(callEvery)
	defer tick.Stop()
	slots := make(chan struct{}, callsAtOnce)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				callOnce(ctx, client, gateway, token, n%2 == 1)
			}()
		default: // it is slow today
		}
	}
}

// callOnce makes one call. Failures are what the demo is about.
func callOnce(ctx context.Context, client *http.Client, gateway, token string, stream bool) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Say something."}]}`, Model, stream)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(gateway, "/")+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "fusebox-demo")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	if err != nil {
		return
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}
