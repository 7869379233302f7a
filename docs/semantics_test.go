package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every case of semantics.md names a test, and every test that it names exists.
func TestSemanticsNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := testSources(t)
	named := regexp.MustCompile("`(Test\\w+)(?:/([^`]+))?`")
	cases := 0
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| case ") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cases++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("line %d names no test", i+1)
		}
		for _, test := range tests {
			if !exists(sources, test[1], test[2]) {
				t.Errorf("line %d: there is no test %s", i+1, strings.Trim(test[0], "`"))
			}
		}
	}
	if cases == 0 {
		t.Error("semantics.md has no cases")
	}
}

// testSources returns the text of every test file of the module.
func testSources(t *testing.T) []string {
	t.Helper()
	var sources []string
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sources = append(sources, string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// exists reports whether a source has the test and, where one is given, the
// name of its case.
func exists(sources []string, test, name string) bool {
	for _, source := range sources {
		if strings.Contains(source, "func "+test+"(t *testing.T)") && (name == "" || strings.Contains(source, `"`+name+`"`)) {
			return true
		}
	}
	return false
}
