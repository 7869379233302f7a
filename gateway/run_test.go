package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/gateway"
)

// A run that ignored its denials elsewhere went on calling models.
func TestAStuckRunIsRefusedUntilItIsLetGo(t *testing.T) {
	a, b := newUpstream(t, "a", chats("from a")), newUpstream(t, "b", messages("from b"))
	f := newFront(t, trips(5, time.Hour), gateway.Config{Backends: []gateway.Backend{a.backend(), b.anthropic()}})
	tool, err := f.box.Circuit("tool/crm/lookup")
	if err != nil {
		t.Fatal(err)
	}
	run := f.box.Run("job-7")
	for range fusebox.DefaultThrash().StopAfter {
		run.Refused(tool, fusebox.NewDenial(fusebox.DenialInfo{Circuit: "tool/crm/lookup", Reason: fusebox.ReasonOpen}))
	}
	for _, c := range []struct{ path, body, says string }{
		{"/v1/chat/completions", plainChat, `"code":"run_stuck"`},
		{"/v1/chat/completions", streamedChat, `"reason":"stuck"`},
		{"/v1/messages", plainMessage, `"type":"error"`},
	} {
		got := f.post(t, c.path, c.body, "Fusebox-Run", "Job-7")
		if got.status != 409 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(got.body, c.says) ||
			!strings.Contains(got.body, "This run is stopped: it went on after 10 refusals") || !strings.Contains(got.body, `"run":"job-7"`) {
			t.Errorf("%s: %d, %v: %s", c.path, got.status, got.header, got.body)
		}
	}
	if n := a.hits() + b.hits(); n != 0 {
		t.Errorf("a stuck run made %d calls", n)
	}
	f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "job-8").wants(t, 200, "from a", "a", "ok")
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
	if err := f.box.ResetRun("job-7", "it may go on"); err != nil {
		t.Fatal(err)
	}
	f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "job-7").wants(t, 200, "from a", "a", "ok")
	if got := a.last().header.Get("Fusebox-Run"); got != "" {
		t.Errorf("the backend was told of run %q", got)
	}
}

// Only the MCP guard stopped a run that ignored its refusals: over HTTP it went
// on for as long as it liked.
func TestARunThatIgnoresRefusalsIsStuck(t *testing.T) {
	f, a, b := pair(t, trips(1, time.Hour), status(500, tooBusy), status(500, tooBusy))
	ask := func(run string) answer { return f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", run) }
	for range 3 { // they fail, then there is the last resort of each
		if got := ask("job-7"); got.status != 500 {
			t.Fatalf("%d: %s", got.status, got.body)
		}
	}
	asked, stop := a.hits()+b.hits(), fusebox.DefaultThrash().StopAfter
	said := map[string]bool{}
	for i := range stop {
		got := ask("job-7")
		if got.status != 503 || !strings.Contains(got.body, `"run":"job-7"`) {
			t.Fatalf("refusal %d: %d %s", i, got.status, got.body)
		}
		said[got.denied(t).Instruction] = true
	}
	if len(said) < 3 {
		t.Errorf("the refusals do not escalate: %v", said)
	}
	for range 2 {
		if got := ask("job-7"); got.status != 409 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(got.body, "it went on after 10 refusals") {
			t.Fatalf("after %d refusals: %d %s", stop, got.status, got.body)
		}
	}
	if got := ask("job-8"); got.status != 503 {
		t.Errorf("another run: %d %s", got.status, got.body)
	}
	if n := a.hits() + b.hits() - asked; n != 0 {
		t.Errorf("refusals made %d calls", n)
	}
}

func TestWhatIsNoRefusalThatARunIgnores(t *testing.T) {
	soon := status(429, `{"error":{"code":"rate_limit_exceeded"}}`, "Retry-After", "50")
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *front, a *upstream, ask func())
	}{
		{"a backend was asked, and failed", func(t *testing.T, f *front, a *upstream, ask func()) {
			a.does(status(500, tooBusy))
			ask()
		}},
		{"a wait is worth it", func(t *testing.T, f *front, a *upstream, ask func()) {
			a.does(soon)
			ask()
		}},
		{"something worked in between", func(t *testing.T, f *front, a *upstream, ask func()) {
			hold(t, f, "model/a/m", ask)
			a.does(chats("from a"))
			f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "r").wants(t, 200, "from a", "a", "ok")
			hold(t, f, "model/a/m", ask)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newUpstream(t, "a", nil)
			f := newFrontOn(t, fusebox.Config{Policy: trips(100, time.Hour), Thrash: fusebox.Thrash{Repeats: 3, StopAfter: 4, Forget: time.Hour}},
				gateway.Config{Backends: []gateway.Backend{a.backend()}})
			c.do(t, f, a, func() {
				for range 3 {
					f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "r")
				}
			})
			if got := f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "r"); got.status == 409 || f.box.Run("r").Stuck() {
				t.Errorf("the run is stuck: %d %s", got.status, got.body)
			}
		})
	}
}

// hold does something while a circuit is held open.
func hold(t *testing.T, f *front, circuit string, do func()) {
	t.Helper()
	c, err := f.box.Circuit(circuit)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Hold(fusebox.Open, time.Time{}, "test"); err != nil {
		t.Fatal(err)
	}
	do()
	c.Lift("test")
}

// "on_open: stop_run" was read for models, and no run was stopped.
func TestARunThatCannotGoOnWithoutAModelIsStopped(t *testing.T) {
	a, b := newUpstream(t, "a", chats("from a")), newUpstream(t, "b", chats("from b"))
	f := newFrontOn(t, fusebox.Config{Policy: trips(1, time.Hour), Guard: func(name string) fusebox.Guard { return fusebox.Guard{StopRun: name == "model/a/m"} }},
		gateway.Config{Backends: []gateway.Backend{a.backend(), b.backend()}})
	ask := func() answer { return f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "job-7") }
	hold(t, f, "model/a/m", func() {
		ask().wants(t, 200, "from b", "b", "degraded") // another backend will do
		hold(t, f, "model/b/m", func() {
			if got := ask(); got.status != 503 || !strings.Contains(got.body, `"circuit":"model/a/m"`) {
				t.Fatalf("%d: %s", got.status, got.body)
			}
		})
	})
	if got := ask(); got.status != 409 || !strings.Contains(got.body, "it cannot go on without model/a/m") {
		t.Fatalf("%d: %s", got.status, got.body)
	}
	f.post(t, "/v1/chat/completions", plainChat).wants(t, 200, "from a", "a", "ok")
}

func TestEvidenceNamesTheRun(t *testing.T) {
	a := newUpstream(t, "a", status(500, "{}"))
	f := newFront(t, trips(5, time.Hour), gateway.Config{Backends: []gateway.Backend{a.backend()}})
	runs := make(chan string, 10)
	defer f.box.OnEvidence(func(e fusebox.Event) {
		if e.Kind == fusebox.KindEvidence {
			runs <- fmt.Sprint(e.Outcome, " of ", e.Run)
		}
	})()
	f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "Job-7")
	if got := receive(t, "the evidence", runs); got != "failure of job-7" {
		t.Errorf("evidence: %s", got)
	}
}
