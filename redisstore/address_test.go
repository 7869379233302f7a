//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func TestAddress(t *testing.T) {
	a, err := parseAddress("rediss://me:hunter2@h:7000/3?addr=h2&addr=[::1]:7&sentinel=main&sentinel_auth=true&prefix=team:&server_name=real")
	if err != nil {
		t.Fatal(err)
	}
	o := a.option
	if want := []string{"h:7000", "h2:6379", "[::1]:7"}; !slices.Equal(o.InitAddress, want) {
		t.Errorf("addresses %q, want %q", o.InitAddress, want)
	}
	if o.Username != "me" || o.Password != "hunter2" || o.SelectDB != 3 || a.prefix != "team:" {
		t.Errorf("user %q, password %q, database %d, prefix %q", o.Username, o.Password, o.SelectDB, a.prefix)
	}
	if o.Sentinel.MasterSet != "main" || o.Sentinel.Password != "hunter2" || o.Sentinel.TLSConfig == nil {
		t.Errorf("sentinel %+v", o.Sentinel)
	}
	if o.TLSConfig == nil || o.TLSConfig.ServerName != "real" || o.TLSConfig.InsecureSkipVerify {
		t.Errorf("TLS %+v", o.TLSConfig)
	}
	if a.text != "rediss://h:7000/3" {
		t.Errorf("errors would say %q", a.text)
	}
}

func TestAddressMistakes(t *testing.T) {
	for url, says := range map[string]string{
		"redis://u:hunter2@h:port":            "no URL",
		"http://u:hunter2@h":                  "want redis://",
		"redis://u:hunter2@/0":                "want redis://",
		"redis://u:hunter2@h/a":               `have "a"`,
		"redis://u:hunter2@h/-1":              `have "-1"`,
		"redis://u:hunter2@h?password=x":      `no such parameter: "password"`,
		"redis://u:hunter2@h?ca=/x":           "rediss://",
		"rediss://u:hunter2@h?ca=/no/file":    "/no/file",
		"rediss://u:hunter2@h?cert=/x":        "cert and key go together",
		"redis://u:hunter2@h?sentinel_auth=x": "true or false",
		"redis://u:hunter2@h?prefix={a}":      "without braces",
		"redis://u:hunter2@h?%zz":             "parameters",
	} {
		_, err := Open(Config{URL: url})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want something of %q", url, err, says)
		}
	}
}

// The user that docs/fleet.md describes can do all that a worker does, and a
// wrong password is said at once, without it.
func TestUserOfTheDocument(t *testing.T) {
	s := startServer(t)
	f, err := os.Open("../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, "ACL SETUSER") {
			found = true
			if err := s.do(strings.Fields(strings.Replace(line, "PASSWORD", "hunter2", 1))...).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !found {
		t.Fatal("the document has no user")
	}
	w := newWorker(t, strings.Replace(s.url(), "//", "//fusebox:hunter2@", 1), coolDown(time.Hour))
	other := newWorker(t, s.url(), coolDown(time.Hour))
	w.fail(3)
	other.becomes(fusebox.Open)
	other.circuit.Reset("mended")
	w.becomes(fusebox.Closed)
	for _, err := range w.store.Evidence(t.Context(), name, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range w.store.Circuits(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.Announce(t.Context(), fusebox.Worker{ID: "1"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if there, err := w.store.Workers(t.Context()); err != nil || len(there) == 0 {
		t.Errorf("there are %+v, %v", there, err)
	}
	clients, err := s.do("CLIENT", "LIST").ToString()
	if n := strings.Count(clients, "name=fusebox"); err != nil || n != 2 {
		t.Errorf("%d connections of 2 workers, %v:\n%s", n, err, clients)
	}

	wrong := openStore(t, strings.Replace(s.url(), "//", "//fusebox:hunter3@", 1))
	_, err = wrong.Apply(context.Background(), name, fusebox.Policy{})
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "hunter3") {
		t.Errorf("a wrong password: %v", err)
	}
}
