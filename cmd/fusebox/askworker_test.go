package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestStatusFromAWorker(t *testing.T) {
	t.Parallel()
	const report = `{"circuits":[{"circuit":"model/a","phase":"open","health":"down","version":3,"failures":5,"retry_after_s":20,"last_error":"it broke","local":true,"local_since":"2026-03-01T10:00:00Z"},
		{"circuit":"model/b","phase":"closed","health":"up"}],"runs":[{"run":"nightly","stuck":true,"denied":3,"outcome":"failed"}],
		"store":{"address":"redis://h/0","answers":false,"error":"connection refused"},
		"workers":[{"id":"1","worker":"web-1:7","seen":"2026-03-01T10:00:05Z","local_since":"2026-03-01T10:00:00Z"}]}`
	mux := http.NewServeMux()
	answer := func(path string, status int, body string) {
		mux.HandleFunc("GET "+path+"/v1/circuits", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer hunter2" {
				t.Errorf("%s: it was asked with %q", path, r.Header.Get("Authorization"))
			}
			if status == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(status)
			w.Write([]byte(body))
		})
	}
	answer("", http.StatusOK, report)
	answer("/refuses", http.StatusUnauthorized, `{"error":{"message":"the admin token is required"}}`)
	answer("/fails", http.StatusBadGateway, "<html>")
	answer("/garbles", http.StatusOK, "<html>")
	answer("/models", http.StatusOK, `{"object":"list","data":[]}`)
	answer("/sends", http.StatusFound, "")
	mux.HandleFunc("GET /elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("it went where it was sent, with the token") })
	worker := httptest.NewServer(mux)
	t.Cleanup(worker.Close)

	p := newPlace(t)
	p.env = append(p.env, "ADMIN_TOKEN=hunter2")
	p.write("fusebox.yaml", "store: redis://127.0.0.1:1/0\nadmin: {token: {env: ADMIN_TOKEN}}\n")
	for _, test := range []struct {
		name string
		from string // "" or a path = of the worker
		args []string
		code int
		says []string
	}{
		{"all", "", nil, exitOK, []string{"model/a  down    open for 20s", "model/b", "nightly", "store redis://h/0 does not answer: connection refused", "web-1:7", "local since "}},
		{"JSON", "", []string{"--json"}, exitOK, []string{`"circuit":"model/a"`, `"local_since":"2026-03-01T10:00:00Z"`, `"answers":false`, `"worker":"web-1:7"`}},
		{"one that it does not know", "", []string{"model/C"}, exitOK, []string{"model/c  unknown"}},
		{"a token that is refused", "/refuses", nil, exitFailed, []string{"401 Unauthorized: the admin token is required"}},
		{"another server's error", "/fails", nil, exitFailed, []string{"/fails: 502 Bad Gateway\n"}},
		{"no admin listener", "/garbles", nil, exitFailed, []string{"its answer is not that of an admin listener"}},
		// It said that no circuit has any evidence: the gateway had passed the question on.
		{"a gateway", "/models", nil, exitFailed, []string{"its answer is not that of an admin listener"}},
		{"it sends elsewhere", "/sends", nil, exitFailed, []string{"it sends elsewhere"}},
		{"no address", "h:4041", nil, exitUsage, []string{"--from: want the address of a worker's admin listener"}},
		{"a password in it", "http://u:hunter2@h", nil, exitUsage, []string{"--from: want the address"}},
	} {
		from := test.from
		if test.code != exitUsage {
			from = worker.URL + from
		}
		r := p.run(append([]string{"status", "--from", from}, test.args...)...)
		for _, want := range test.says {
			if r.code != test.code || !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("%s: exit code %d, want %d and %q in\n%s%s", test.name, r.code, test.code, want, r.stdout, r.stderr)
			}
		}
		if strings.Contains(r.stdout+r.stderr, "hunter2") {
			t.Errorf("%s: it shows the secret: %s%s", test.name, r.stdout, r.stderr)
		}
	}
	if r := p.run("status", "--from", worker.URL, "model/b"); strings.Contains(r.stdout, "model/a") || strings.Contains(r.stdout, "nightly") {
		t.Errorf("only model/b was asked for: %s", r.stdout)
	}
}
