package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// stopped is what a request looks like to its client, to the observer and to
// the circuit when the gateway is stopped while it is under way.
func (f *fault) stopped(t *testing.T, under <-chan struct{}) answer {
	t.Helper()
	got := make(chan answer, 1)
	go func() { got <- f.ask(t) }()
	receive(t, "the request to be under way", under)
	f.cut(gateway.ErrStopped)
	a := receive(t, "its end", got)
	receive(t, "the request to be told of", f.noted)
	if told := f.told()[0]; told.Outcome != "failed" || told.Status != a.status {
		t.Errorf("the request is told of as %q with status %d", told.Outcome, told.Status)
	}
	if s := f.status(t, "model/a/m"); s.Phase != fusebox.Closed || s.Failures != 0 || s.Health == fusebox.Down {
		t.Errorf("the backend is blamed: %v, %d failures", s.Phase, s.Failures)
	}
	return a
}

// A stream that a shutdown cut ended without a word, and as if its client had
// gone away.
func TestAStreamThatAShutdownCutsIsToldSo(t *testing.T) {
	everyWay(t, gateway.Config{}, nil, func(t *testing.T, f *fault) {
		evidence := make(chan fusebox.Event, 10)
		defer f.box.OnEvidence(func(e fusebox.Event) { evidence <- e })()
		under := make(chan struct{})
		f.a.does(func(w http.ResponseWriter, r *http.Request) {
			f.stream(sixty(9))(w, r)
			if f.whole {
				close(under)
			}
			<-r.Context().Done()
		})
		if !f.whole { // its client has the beginning
			go func() {
				defer close(under)
				eventually(t, "the first token", func() bool { return f.read.Load() > 0 })
			}()
		}
		got := f.stopped(t, under)
		if f.whole {
			if _, said := got.errorOf(t); got.err != nil || got.status != 503 || !strings.Contains(said, "is being stopped") || got.header.Get("X-Should-Retry") != "" {
				t.Errorf("%d, %v: %s", got.status, got.err, got.body)
			}
		} else {
			events := strings.Split(strings.TrimSpace(got.body), "\n\n")
			if last := events[len(events)-1]; got.err == nil || !strings.Contains(last, `"error"`) || !strings.Contains(last, "the gateway is being stopped") {
				t.Errorf("%v: %s", got.err, got.body)
			}
		}
		if e := receive(t, "the evidence", evidence); e.Outcome != fusebox.Canceled || e.Error != "the gateway is being stopped" {
			t.Errorf("%v: %s", e.Outcome, e.Error)
		}
	})
}

func TestAHeldStreamThatAShutdownCutsIsToldInIt(t *testing.T) {
	everyWay(t, gateway.Config{KeepAlive: tick / 20}, nil, func(t *testing.T, f *fault) {
		if !f.whole {
			return
		}
		f.a.does(f.stream(sixty(9), "hang"))
		under := make(chan struct{})
		go func() {
			defer close(under)
			eventually(t, "a comment", func() bool { return f.read.Load() > 0 })
		}()
		got := f.stopped(t, under)
		if got.err == nil || got.status != 200 || strings.Contains(got.body, "a0") || !strings.Contains(got.body, "is being stopped") {
			t.Errorf("%d, %v: %s", got.status, got.err, got.body)
		}
	})
}

func TestAShutdownEndsWhatWaits(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(*upstream) http.HandlerFunc
		wait time.Duration // of a throttle
	}{
		{"for an answer", func(u *upstream) http.HandlerFunc { return u.hang }, 0},
		{"for a throttle to end", func(u *upstream) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				status(429, `{"error":{}}`, "Retry-After", "600")(w, r)
				u.busy <- struct{}{}
			}
		}, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			retry := quick
			retry.Wait = c.wait
			f, a, b := retrying(t, retry, nil, nil)
			a.does(c.does(a))
			got := make(chan answer, 1)
			go func() { got <- f.post(t, "/v1/chat/completions", plainChat) }()
			receive(t, "the request to wait", a.busy)
			f.cut(gateway.ErrStopped)
			said := receive(t, "its end", got)
			if said.err != nil || said.status != 503 || !strings.Contains(said.body, `"code":"stopping"`) || b.hits() != 0 {
				t.Errorf("%d, %v, b asked %d times: %s", said.status, said.err, b.hits(), said.body)
			}
			if told := f.told(); len(told) != 1 || told[0].Outcome != "failed" {
				t.Errorf("told %+v", told)
			}
		})
	}
}
