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
			!strings.Contains(got.body, "This run is stopped: it went on after 10 refusals") || !strings.Contains(got.body, `"run":"Job-7"`) {
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

func TestEvidenceNamesTheRun(t *testing.T) {
	a := newUpstream(t, "a", status(500, "{}"))
	f := newFront(t, trips(5, time.Hour), gateway.Config{Backends: []gateway.Backend{a.backend()}})
	runs := make(chan string, 10)
	defer f.box.OnEvidence(func(e fusebox.Event) {
		if e.Kind == fusebox.KindEvidence {
			runs <- fmt.Sprint(e.Outcome, " of ", e.Run)
		}
	})()
	f.post(t, "/v1/chat/completions", plainChat, "Fusebox-Run", "job-7")
	if got := receive(t, "the evidence", runs); got != "failure of job-7" {
		t.Errorf("evidence: %s", got)
	}
}
