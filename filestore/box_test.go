package filestore

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// box is a process's circuits on the store in dir.
func box(t *testing.T, dir string) *fusebox.Box {
	t.Helper()
	b, err := fusebox.New(fusebox.Config{Store: open(t, Config{Dir: dir, Poll: time.Millisecond}), Report: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func circuitOf(t *testing.T, b *fusebox.Box) *fusebox.Circuit {
	t.Helper()
	c, err := b.Circuit(bench)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fail makes a call that fails.
func fail(t *testing.T, c *fusebox.Circuit) {
	t.Helper()
	permit, err := c.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	permit.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassTool})
}

// Failures seen by several processes open the circuit in all of them.
func TestBoxesShareACircuit(t *testing.T) {
	dir := t.TempDir()
	boxes := []*fusebox.Box{box(t, dir), box(t, dir), box(t, dir)}
	for _, b := range boxes {
		circuitOf(t, b)
	}
	for _, b := range boxes {
		fail(t, circuitOf(t, b))
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, b := range boxes {
		c := circuitOf(t, b)
		for deadline := time.Now().Add(10 * time.Second); ; {
			_, err := c.Allow(t.Context())
			if errors.Is(err, fusebox.ErrOpen) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d still calls: %+v", i, c.Status())
			}
		}
	}
	refoldAll(t, dir)
}

// A store that cannot be written to stops no call: the process decides by
// itself, and says so.
func TestBoxGoesOnWithoutItsStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for _, suffix := range []string{logSuffix, lockSuffix} { // where files are wanted
		if err := os.Mkdir(s.path(bench, suffix), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := box(t, dir)
	c := circuitOf(t, b)
	for range 3 {
		fail(t, c)
	}
	if _, err := c.Allow(t.Context()); !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("after three failures: %v", err)
	}
	if status := c.Status(); !status.Local {
		t.Errorf("it does not say that it is alone: %+v", status)
	}
}
