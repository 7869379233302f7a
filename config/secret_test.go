package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretValue(t *testing.T) {
	t.Setenv("FUSEBOX_TEST_SECRET", "hunter2\n")
	t.Setenv("FUSEBOX_TEST_EMPTY", "")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good"), "hunter2\n")
	write(t, filepath.Join(dir, "empty"), "\n")
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", maxSecret+1))
	for _, test := range []struct {
		name   string
		secret Secret
		want   string
		err    string
	}{
		{"none", Secret{}, "", ""},
		{"variable", Secret{Env: "FUSEBOX_TEST_SECRET"}, "hunter2", ""},
		{"empty variable", Secret{Env: "FUSEBOX_TEST_EMPTY"}, "", "FUSEBOX_TEST_EMPTY is not set"},
		{"file", Secret{File: filepath.Join(dir, "good")}, "hunter2", ""},
		{"empty file", Secret{File: filepath.Join(dir, "empty")}, "", "is empty"},
		{"large file", Secret{File: filepath.Join(dir, "large")}, "", "larger than"},
		{"missing file", Secret{File: filepath.Join(dir, "none")}, "", "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := test.secret.Value()
			if v != test.want || (err == nil) != (test.err == "") {
				t.Fatalf("have %q, %v", v, err)
			}
			if err != nil && (!errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("have %v, want it to say %q", err, test.err)
			}
		})
	}
}

func TestPrintingASecretShowsItsName(t *testing.T) {
	t.Setenv("FUSEBOX_TEST_SECRET", "hunter2")
	store, err := ParseStore("redis://user:hunter2@host:6379/0")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Store, c.Gateway.Token = store, Secret{Env: "FUSEBOX_TEST_SECRET"}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "store", store, "token", c.Gateway.Token)
	for form, text := range map[string]string{"JSON": string(b), "log": log.String(), "%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", *c)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s shows it: %s", form, text)
		}
		if !strings.Contains(text, "FUSEBOX_TEST_SECRET") || !strings.Contains(text, "host:6379") {
			t.Errorf("%s does not name it: %s", form, text)
		}
	}
	if store.URL() != "redis://user:hunter2@host:6379/0" || !store.Shared() || store.Dir() != "" {
		t.Errorf("store: %s", store.URL())
	}
}

// A password may stand where the user belongs, or in a parameter.
func TestPrintingAStoreShowsWhereItIsAndNoMore(t *testing.T) {
	for given, want := range map[string]string{
		"rediss://hunter2@host/3":                             "rediss://host/3",
		"redis://:hunter2@host:1?prefix=team:&other=hunter2":  "redis://host:1?prefix=team:",
		"redis://h1?addr=h2&sentinel=main&sentinel_auth=true": "redis://h1",
		"file:///var/lib/fusebox":                             "file:///var/lib/fusebox",
	} {
		store, err := ParseStore(given)
		if err != nil || store.String() != want {
			t.Errorf("%s shows as %s, %v, want %s", given, store, err, want)
		}
	}
	for _, bad := range []string{"http://hunter2@host", "redis://u:hunter2@host/a?x=hunter2", "file:///x?hunter2"} {
		if _, err := ParseStore(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestStores(t *testing.T) {
	for _, good := range []string{"file:///var/lib/fusebox", "file://localhost/x", "redis://h", "redis://h:1/0", "rediss://u:p@h/3"} {
		if _, err := ParseStore(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/var/lib", "file:///", "file:x", "file://host/x", "file:///x?y", "redis://", "redis:///0", "redis://h/a", "http://h", "redis://h:x", "%"} {
		if _, err := ParseStore(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "/home/x")
	t.Setenv("USERPROFILE", `C:\x`)
	if dir := DefaultStore().Dir(); !strings.HasSuffix(filepath.ToSlash(dir), "/.local/state/fusebox") {
		t.Errorf("default store: %s", dir)
	}
	state := filepath.Join(t.TempDir(), "with space")
	t.Setenv("XDG_STATE_HOME", state)
	if dir := DefaultStore().Dir(); dir != filepath.Join(state, "fusebox") {
		t.Errorf("default store: %s, want it under %s", dir, state)
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example.com:1": false, "127.0.0.1": false,
	} {
		if got := IsLoopback(address); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
