package filestore

import (
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func TestFileNames(t *testing.T) {
	for _, c := range []struct{ circuit, want string }{
		{"model/openai/gpt-5", "model+openai+gpt-5"},
		{"model/local/llama3.2:1b", "model+local+llama3.2%3a1b"},
		{"a+b", "a%2bb"},
		{"a%2bb", "a%252bb"},
		{"x~000001", "x%7e000001"},
		{"con", "%63on"},
		{"con.x", "%63on.x"},
		{"console", "console"},
		{".hidden", "%2ehidden"},
		{"tool/é", "tool+%c3%a9"},
		{"tool/*", "tool+%2a"},
	} {
		if got := fileName(c.circuit); got != c.want {
			t.Errorf("%q: %q, want %q", c.circuit, got, c.want)
		}
		if back, ok := circuitName(c.want); !ok || back != c.circuit {
			t.Errorf("%q reads back as %q, %v", c.want, back, ok)
		}
	}
	for _, other := range []string{"A", "a~000001", "%", "%2", "%zz", "%41", "a b", "con", "+a", "a++b", "a%2fb", ""} {
		if name, ok := circuitName(other); ok {
			t.Errorf("%q was taken for the file of %q", other, name)
		}
	}
}

// FuzzFileName: two circuits never share a file, whether or not the file system
// tells upper from lower case, and a file's name is short enough for any.
func FuzzFileName(f *testing.F) {
	f.Add("model/a", "model/A")
	f.Add("a/b", "a+b")
	f.Add("x"+strings.Repeat("ü", 90), "y"+strings.Repeat("ü", 90))
	f.Add("con", "%63on")
	f.Fuzz(func(t *testing.T, a, b string) {
		a, errA := fusebox.CanonicalName(a)
		b, errB := fusebox.CanonicalName(b)
		if errA != nil || errB != nil {
			return
		}
		fileA, fileB := fileName(a), fileName(b)
		if a != b && strings.EqualFold(fileA, fileB) {
			t.Fatalf("%q and %q share the file %q", a, b, fileA)
		}
		if strings.ContainsAny(fileA, "/\\:*?\"<>|~ ") || len(fileA) > maxFileName || fileA == "" || fileA[0] == '.' {
			t.Fatalf("%q: %q", a, fileA)
		}
		if back, ok := circuitName(fileA); ok && back != a || !ok && !strings.Contains(fileA, hashMark) {
			t.Fatalf("%q reads back as %q, %v", a, back, ok)
		}
	})
}
