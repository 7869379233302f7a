package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/gateway"
)

func TestALimitSendsTheRestElsewhere(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit gateway.Limit
		says  string
	}{
		{"at once", gateway.Limit{Concurrent: 1}, "a: throttled: the limit of 1 calls at once is reached"},
		{"a minute", gateway.Limit{PerMinute: 1}, "the limit of 1 calls a minute is reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newUpstream(t, "a", nil), newUpstream(t, "b", chats("from b"))
			a.does(a.hang)
			limited := a.backend()
			limited.Limit = c.limit
			f := newFront(t, trips(1, time.Hour), gateway.Config{Backends: []gateway.Backend{limited, b.backend()}})
			ended := make(chan answer, 1)
			go func() { ended <- f.post(t, "/v1/chat/completions", plainChat) }()
			receive(t, "a to be busy", a.busy)
			f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from b", "b", "degraded")
			b.does(status(400, `{"error":{"message":"x","code":"model_not_found"}}`))
			if got := f.post(t, "/v1/chat/completions", plainChat); got.status != 429 || !strings.Contains(got.body, c.says) {
				t.Fatalf("with none left: %d %s", got.status, got.body)
			}
			if s := f.status(t, "model/a/m"); a.hits() != 1 || s.Failures != 0 || !s.Throttled.IsZero() {
				t.Fatalf("a was asked %d times; a hit of the limit is evidence: %+v", a.hits(), s)
			}
			a.CloseClientConnections()
			receive(t, "the first answer", ended)
		})
	}
}

func TestALimitsSlotComesBack(t *testing.T) {
	a := newUpstream(t, "a", chats("from a"))
	limited := a.backend()
	limited.Limit = gateway.Limit{Concurrent: 1}
	f := newFront(t, nil, gateway.Config{Backends: []gateway.Backend{limited}})
	for _, behave := range []func(){
		func() { a.does(chats("from a")) }, func() { a.does(status(400, `{}`)) }, func() { a.does(status(500, `{}`)) },
		func() { a.does(chatStream("some", "abort")) }, func() { a.does(chats("from a")) },
	} {
		behave()
		f.post(t, "/v1/chat/completions", streamedChat)
		receive(t, "the request to end", f.noted)
	}
	if a.hits() != 5 {
		t.Fatalf("a was asked %d times of 5", a.hits())
	}
}
