package filestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// open returns a store in a new directory, or in the one that c names.
func open(t *testing.T, c Config) *Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// apply applies events, by the kind's policy.
func apply(t *testing.T, s *Store, circuit string, events ...fusebox.Event) fusebox.State {
	t.Helper()
	state, err := s.Apply(t.Context(), circuit, fusebox.Policy{}, events...)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func failure(at time.Time) fusebox.Event {
	return fusebox.Event{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassServer}
}

// refoldAll fails the test unless folding each file of the directory again
// gives the recorded states.
func refoldAll(t *testing.T, dir string) {
	t.Helper()
	refoldFiles(t, dir)
}

// tester is what testing.T and rapid.T have in common here.
type tester interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

func refoldFiles(t tester, dir string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		stem, _, ok := splitRotated(name)
		if !ok {
			stem = name[:len(name)-len(logSuffix)]
		}
		circuit, _ := circuitName(stem)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for step, err := range Refold(circuit, f, time.Now()) {
			if err == nil && !step.Agrees() {
				t.Fatalf("%s: folded again\n%+v\nrecorded\n%+v\nafter %+v", name, step.After, *step.Recorded, step.Event)
			}
		}
	}
}

func TestRotationGoesOnWithTheState(t *testing.T) {
	s := open(t, Config{Rotate: 5000})
	for i := range 40 {
		state := apply(t, s, "model/x", failure(time.Now()))
		if want := uint64(min((i+1)/5, 1)); state.Version != want {
			t.Fatalf("version %d after %d failures", state.Version, i+1)
		}
	}
	rotated, err := s.rotated("model/x")
	if err != nil || len(rotated) < 3 {
		t.Fatalf("%d rotated files, %v", len(rotated), err)
	}
	refoldAll(t, s.dir)

	failures := 0
	for e, err := range s.Evidence(t.Context(), "model/x", time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == fusebox.KindEvidence {
			failures++
		}
	}
	if failures != 40 {
		t.Errorf("%d failures read back, want 40", failures)
	}
	if again := apply(t, open(t, Config{Dir: s.dir}), "model/x"); again.Phase != fusebox.Open || again.Version != 1 {
		t.Errorf("a fresh reader sees %v, version %d", again.Phase, again.Version)
	}
}

// A process that dies between the two steps of a rotation leaves the log under
// two names; nothing is read twice for that.
func TestDeathInTheMiddleOfARotation(t *testing.T) {
	s := open(t, Config{Rotate: 3000})
	apply(t, s, bench, failure(time.Now()))
	if err := os.Link(s.path(bench, logSuffix), filepath.Join(s.dir, rotatedName(fileName(bench), 1))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(bench, newSuffix), []byte("half a checkpoi"), 0o600); err != nil {
		t.Fatal(err)
	}
	written := 1
	for count := 0; count < 3; {
		failures := 0
		for e, err := range s.Evidence(t.Context(), bench, time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == fusebox.KindEvidence {
				failures++
			}
		}
		if failures != written {
			t.Fatalf("%d failures read back of %d, with %d rotated files", failures, written, count)
		}
		apply(t, s, bench, failure(time.Now()))
		written++
		rotated, err := s.rotated(bench)
		if err != nil {
			t.Fatal(err)
		}
		count = len(rotated)
	}
	refoldAll(t, s.dir)
}
