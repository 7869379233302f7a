package fusebox_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
)

func TestCanonicalName(t *testing.T) {
	long := "model/" + strings.Repeat("x", 194)
	tests := []struct{ in, want, bad string }{
		{in: "model/openai/gpt-5", want: "model/openai/gpt-5"},
		{in: "Model/OpenAI/GPT-5", want: "model/openai/gpt-5"},
		{in: " session/claude\n", want: "session/claude"},
		{in: "/session//claude/", want: "session/claude"},
		{in: "claude", want: "claude"},
		{in: "model/ollama/llama3.2:latest", want: "model/ollama/llama3.2:latest"},
		{in: "model/local/.hidden", want: "model/local/.hidden"},
		{in: "model/a..b", want: "model/a..b"},
		{in: "model/...", want: "model/..."},
		{in: "model/paid/*", want: "model/paid/*"},
		{in: "tool/Straße/É", want: "tool/straße/é"},
		{in: long, want: long},

		{in: "", bad: "empty"},
		{in: " / // ", bad: "space"},
		{in: "///", bad: "empty"},
		{in: "../../etc/passwd", bad: "path segment"},
		{in: "model/../x", bad: "path segment"},
		{in: "model/./x", bad: "path segment"},
		{in: `model\x`, bad: "backslash"},
		{in: "model/a b", bad: "space"},
		{in: "model/a\x00b", bad: "control"},
		{in: "model/a\u200bb", bad: "control"},
		{in: "model/a\u202eb", bad: "control"},
		{in: "model/a\u00a0b", bad: "space"},
		{in: "model/\xff", bad: "UTF-8"},
		{in: long + "x", bad: "longer than 200"},
		{in: strings.Repeat("x", 10_000), bad: "longer than 200"},
	}
	for _, test := range tests {
		t.Run(test.in[:min(len(test.in), 30)], func(t *testing.T) {
			have, err := fusebox.CanonicalName(test.in)
			if test.bad == "" {
				if err != nil || have != test.want {
					t.Errorf("have %q, %v; want %q", have, err, test.want)
				}
				return
			}
			var named *fusebox.NameError
			if !errors.Is(err, fusebox.ErrName) || !errors.As(err, &named) || !strings.Contains(err.Error(), test.bad) {
				t.Errorf("error %v, want a NameError that says %q", err, test.bad)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestKind(t *testing.T) {
	for name, kind := range map[string]string{"model/openai/gpt-5": "model", "session/claude": "session", "claude": "", "": ""} {
		want(t, name, fusebox.Kind(name), kind)
	}
}

func FuzzCanonicalName(f *testing.F) {
	for _, s := range []string{"model/openai/gpt-5", " A//b/ ", "../x", "a\x00", "İ/ẞ/Σς", "\u212a", "a/\u0130", strings.Repeat("Ⱥ", 99), "...", "a/.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := fusebox.CanonicalName(s)
		if err != nil {
			if !errors.Is(err, fusebox.ErrName) {
				t.Fatalf("%q: %v is no ErrName", s, err)
			}
			return
		}
		if again, err := fusebox.CanonicalName(name); err != nil || again != name {
			t.Fatalf("%q is %q, which is %q, %v", s, name, again, err)
		}
		if name == "" || len(name) > 200 || !utf8.ValidString(name) || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.Contains(name, "//") {
			t.Fatalf("%q is %q", s, name)
		}
		for _, segment := range strings.Split(name, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q is %q", s, name)
			}
		}
	})
}
