package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/config"
)

// A token whose file vanishes must not open the door; a renewed one is taken up.
func TestSecretThatIsRenewedOrGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write("first\n")
		get, err := getter(config.Secret{File: file})
		if err != nil {
			t.Fatal(err)
		}
		want := func(value string) {
			t.Helper()
			if got := get(); got != value {
				t.Errorf("want %q, have %q", value, got)
			}
		}
		want("first")
		write("second\n")
		time.Sleep(secretAge)
		want("second")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(secretAge)
		want("second")
	})
	if _, err := getter(config.Secret{File: file}); err == nil {
		t.Error("a secret that is not there: want an error")
	}
	if get, err := getter(config.Secret{}); get != nil || err != nil {
		t.Error("no secret: want none")
	}
}
