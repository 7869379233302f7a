package filestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// A file of shares that a crash has garbled counts as empty, and is as good as
// new after the next claim.
func TestGarbledSharesCountAsNone(t *testing.T) {
	for name, text := range map[string]string{
		"torn": `{"b":{"held":4,"ne`, "empty": "", "null": "null", "no map": "[1]", "not JSON": "\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			path := filepath.Join(dir, "limit+a.shares")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			claim := fusebox.Claim{Owner: "a", Limit: 5, Want: 5, For: time.Hour}
			if got, err := s.Share(t.Context(), "limit/a", claim); err != nil || got.Held != 5 {
				t.Errorf("%+v, %v", got, err)
			}
			claim.Owner = "b"
			if got, err := s.Share(t.Context(), "limit/a", claim); err != nil || got.Held != 0 || got.Owners != 2 {
				t.Errorf("after that: %+v, %v", got, err)
			}
		})
	}
}
