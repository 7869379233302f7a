// Mutants checks the tests: it breaks the program in one place at a time and
// wants the tests that are named to fail. Run it from the module's root:
//
//	go run ./scripts/mutants            all of them
//	go run ./scripts/mutants fence      those whose name holds that word
//
// The sources stay as they are: the broken file takes the place of the real one
// through the go command's -overlay.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// limit bounds one mutant: compiling and its tests.
const limit = 3 * time.Minute

// mutant is one way to break the program.
type mutant struct {
	name     string
	file     string
	old, new string // old occurs in the file once
	pkg      string
	tests    string // of which at least one must fail
}

func main() {
	failed := 0
	for _, m := range mutants {
		if len(os.Args) > 1 && !strings.Contains(m.name, os.Args[1]) {
			continue
		}
		began := time.Now()
		verdict := "killed"
		if err := m.kill(); err != nil {
			verdict = "ALIVE: " + err.Error()
			failed++
		}
		fmt.Printf("%-38s %-24s %5.1fs  %s\n", m.name, m.file, time.Since(began).Seconds(), verdict)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d mutants live\n", failed)
		os.Exit(1)
	}
}

// kill returns nil if a test fails because of the mutant.
func (m mutant) kill() error {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return fmt.Errorf("want its text once in %s, have it %d times: the mutant must follow the source", m.file, n)
	}
	dir, err := os.MkdirTemp("", "fusebox-mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir, strings.Replace(string(source), m.old, m.new, 1))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	test := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-failfast", "-timeout", "2m", "-run", m.tests, m.pkg)
	said, err := test.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s passes in %s", m.tests, m.pkg)
	case strings.Contains(string(said), "[build failed]"), strings.Contains(string(said), "[setup failed]"):
		return fmt.Errorf("it does not compile:\n%s", said)
	case strings.Contains(string(said), "--- FAIL"), strings.Contains(string(said), "panic: test timed out"):
		return nil
	}
	return fmt.Errorf("no test failed, yet go test did: %w\n%s", err, said)
}

// overlay writes what tells the go command to read broken instead of the file.
func (m mutant) overlay(dir, broken string) (string, error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	instead := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(instead, []byte(broken), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: instead}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, replace, 0o600)
}
