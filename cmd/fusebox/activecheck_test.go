package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Two processes on one store check a backend once among them; doctor knows its
// health before any traffic. When the one that checks ends, the other goes on.
func TestOneOfTwoProcessesChecks(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.Method+" "+r.URL.Path]++
		io.WriteString(w, "{}")
	}))
	t.Cleanup(u.Close)
	count := func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		return asked["GET /v1/"+path]
	}
	p := newPlace(t)
	for _, name := range []string{"one", "two"} {
		p.write(name+".yaml", fmt.Sprintf("backends: {only: {url: \"%s/v1\", dialect: openai, check: {path: /%s, every: 1s}}}\n"+
			"routes: [{match: \"*\", backends: [only]}]\n", u.URL, name))
	}
	first := p.up("--config", "one.yaml")
	until(t, "the first check", func() bool { return count("one") > 0 })
	p.up("--config", "two.yaml")
	seen := count("one")
	until(t, "three more checks", func() bool { return count("one") >= seen+3 })
	if n := count("two"); n != 0 {
		t.Errorf("the second process checked %d times too", n)
	}
	until(t, "the evidence to be in the store", func() bool {
		return len(p.status("check/only").Circuits) == 1 && p.status("check/only").Circuits[0].Health == "up"
	})
	var d struct {
		Backends []backendDiagnosis `json:"backends"`
	}
	p.must("doctor", "--config", "one.yaml", "--json").decode(t, &d)
	if b := d.Backends[0]; b.Condition != conditionUp || b.Latency == nil || !slices.Equal(b.Circuits, []string{"check/only"}) {
		t.Errorf("%+v", b)
	}
	if out := p.must("config", "check", "one.yaml").stdout; !strings.Contains(out, "\ncheck/only\n") || !strings.Contains(out, "3 failures in a row") {
		t.Errorf("config check printed:\n%s", out)
	}
	first.stop()
	until(t, "the second process to go on", func() bool { return count("two") > 0 })
}

func TestABackendThatIsNotReachedIsDown(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", "backends: {only: {url: \"http://127.0.0.1:9/v1\", dialect: openai, check: {every: 1s}}}\n"+
		"routes: [{match: \"*\", backends: [only]}]\n")
	p.up()
	until(t, "doctor to say so", func() bool {
		got := p.run("doctor")
		return got.code == exitFailed && strings.Contains(got.stdout, "only     down")
	})
	if out := p.must("route", "m").stdout; !strings.Contains(out, "check/only ") || !strings.HasSuffix(out, "No backend is usable.\n") {
		t.Errorf("route:\n%s", out)
	}
}
