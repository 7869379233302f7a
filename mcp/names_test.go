package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestToolsHaveCircuits(t *testing.T) {
	for tool, want := range map[string]string{
		"read_file":        "tool/fs/read_file",
		"getUser":          "tool/fs/getuser",
		"admin.users/list": "tool/fs/admin.users/list",
		"two words":        "tool/fs/two%20words",
		"50%":              "tool/fs/50%25",
		"*":                "tool/fs/%2a",
		"a/../b":           "tool/fs/a%2f%2e%2e%2fb",
		"/":                "tool/fs/%2f",
		`back\slash`:       "tool/fs/back%5cslash",
		"tab\there":        "tool/fs/tab%09here",
		"größe":            "tool/fs/größe",
		"\xff":             "tool/fs/%ff",
	} {
		got := circuitName("fs", tool)
		if got != want {
			t.Errorf("%q: have %s, want %s", tool, got, want)
		}
		if canonical, err := fusebox.CanonicalName(got); err != nil || canonical != got {
			t.Errorf("%q: %s is not canonical: %s, %v", tool, got, canonical, err)
		}
	}
}

func TestATooLongToolNameStandsForItselfAsAHash(t *testing.T) {
	a, b := circuitName("fs", strings.Repeat("long", 99)), circuitName("fs", strings.Repeat("long", 98))
	for _, name := range []string{a, b} {
		if c, err := fusebox.CanonicalName(name); err != nil || c != name || !strings.HasPrefix(name, "tool/fs/~") {
			t.Errorf("have %s, %v", name, err)
		}
	}
	if a == b {
		t.Error("two tools share a circuit")
	}
}

// FuzzToolNames: every name has a legal circuit, and two names that differ
// otherwise than in case have two.
func FuzzToolNames(f *testing.F) {
	f.Add("a/b", "a//b")
	f.Add("a b", "a%20b")
	f.Add(".", "%2e")
	f.Add("~x", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		x, y := circuitName("s", a), circuitName("s", b)
		for _, name := range []string{x, y} {
			if c, err := fusebox.CanonicalName(name); err != nil || c != name || !strings.HasPrefix(name, "tool/s/") || name == "tool/s/*" {
				t.Errorf("%q is no tool's circuit: %v", name, err)
			}
		}
		if lower := strings.ToLower; x == y && lower(a) != lower(b) {
			t.Errorf("%q and %q share %s", a, b, x)
		}
	})
}

func TestToolsBeyondABoundShareACircuit(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tools := newTools(box, "s")
	for i := range 10 * maxTools {
		c, shared, err := tools.circuit(fmt.Sprint("tool", i))
		if err != nil || shared != (i >= maxTools) || shared && c.Name() != "tool/s/*" {
			t.Fatalf("tool %d: have %s, shared %v, %v", i, c.Name(), shared, err)
		}
	}
	if n := len(box.Circuits()); n != maxTools+1 {
		t.Errorf("%d circuits", n)
	}
}
