package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindAndLoad(t *testing.T) {
	home, here := t.TempDir(), t.TempDir()
	t.Chdir(here)
	t.Setenv("XDG_CONFIG_HOME", home)
	if p, ok := Find(); ok {
		t.Fatalf("found %s where there is nothing", p)
	}
	inHome := filepath.Join(home, "fusebox", "fusebox.yaml")
	write(t, inHome, "quorum: 3")
	if p, ok := Find(); !ok || p != inHome {
		t.Errorf("found %s, want %s", p, inHome)
	}
	write(t, "fusebox.yaml", "thrash: {texts: denials.tmpl}\ngateway: {token: {file: gateway.token}}")
	p, ok := Find()
	if !ok || p != "fusebox.yaml" {
		t.Errorf("found %s, want the one here", p)
	}
	_, err := Load(p)
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "fusebox.yaml:1:17: thrash.texts") {
		t.Errorf("a missing template file: %v", err)
	}
	write(t, "denials.tmpl", `{{define "opne"}}{{end}}`)
	if _, err := Load(p); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "fusebox.yaml:1:17: thrash.texts: want templates") {
		t.Errorf("a bad template file: %v", err)
	}
	write(t, "denials.tmpl", `{{define "open"}}Stop.{{end}}`)
	write(t, "gateway.token", " token-of-the-gateway\n")
	c, err := Load(filepath.Join(here, p))
	if err != nil {
		t.Fatal(err)
	}
	if c.Thrash.Texts == nil {
		t.Error("the texts were not read")
	}
	if v, err := c.Gateway.Token.Value(); v != "token-of-the-gateway" || err != nil {
		t.Errorf("token: %q, %v", v, err)
	}
	if _, err := Load(filepath.Join(here, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(here); err == nil {
		t.Error("a directory was read")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
