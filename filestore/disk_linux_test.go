package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/fusebox-go/fusebox"
)

func TestFullDisk(t *testing.T) {
	s := open(t, Config{})
	if err := os.Symlink("/dev/full", s.path(bench, logSuffix)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Apply(t.Context(), bench, fusebox.Policy{}, failure(time.Now()))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), s.path(bench, logSuffix)) {
		t.Errorf("have %v", err)
	}
}

// limitVariable makes this test's binary a process whose files may not grow.
const limitVariable = "FILESTORE_TEST_LIMIT"

func init() { children[limitVariable] = underLimit }

// underLimit reports a failure where the log may grow by 300 bytes only, and
// prints what Apply says.
func underLimit(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	info, err := os.Stat(s.path(bench, logSuffix))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	limit := syscall.Rlimit{Cur: uint64(info.Size()) + 300, Max: uint64(info.Size()) + 300}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = s.Apply(context.Background(), bench, fusebox.Policy{}, failure(time.Now()))
	fmt.Println(err)
	state, err := s.Apply(context.Background(), bench, fusebox.Policy{})
	fmt.Println(state.Streak, err)
	return 0
}

func TestNothingHalfWrittenIsLeft(t *testing.T) {
	s := open(t, Config{})
	apply(t, s, bench, failure(time.Now()))
	before, err := os.ReadFile(s.path(bench, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), limitVariable+"="+s.dir)
	said, err := child.Output()
	if err != nil || !strings.Contains(string(said), "file too large") || !strings.Contains(string(said), "1 <nil>\n") {
		t.Errorf("the process said %q, %v", said, err)
	}
	if after, err := os.ReadFile(s.path(bench, logSuffix)); err != nil || string(after) != string(before) {
		t.Errorf("the log was %d bytes and is %d, %v", len(before), len(after), err)
	}
	if state := apply(t, s, bench, failure(time.Now())); state.Streak != 2 {
		t.Errorf("streak %d, want 2", state.Streak)
	}
}

// Writing to a read-only directory fails with words; reading goes on.
func TestReadOnlyDirectory(t *testing.T) {
	s := open(t, Config{})
	apply(t, s, bench, failure(time.Now()))
	for path, mode := range map[string]os.FileMode{s.path(bench, logSuffix): 0o444, s.path(bench, lockSuffix): 0o444, s.dir: 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for dir := filepath.Dir(s.dir); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(s.dir, 0o755)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 { // whom no mode stops: this thread becomes somebody else, and ends with the goroutine
			runtime.LockOSThread()
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		fresh, err := Open(Config{Dir: s.dir})
		if err != nil {
			t.Error(err)
			return
		}
		for _, circuit := range []string{bench, "tool/new"} {
			_, err = fresh.Apply(context.Background(), circuit, fusebox.Policy{}, failure(time.Now()))
			if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), s.dir) {
				t.Errorf("%s: have %v", circuit, err)
			}
		}
		if state, err := fresh.Apply(context.Background(), bench, fusebox.Policy{}); err != nil || state.Streak != 1 {
			t.Errorf("reading: streak %d, %v", state.Streak, err)
		}
	}()
	<-done
}

// A writer waits for the lock as long as its context says; readers do not wait.
func TestLockHeldBySomebodyElse(t *testing.T) {
	s := open(t, Config{})
	apply(t, s, bench, failure(time.Now()))
	l := flock.New(s.path(bench, lockSuffix))
	if err := l.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Apply(ctx, bench, fusebox.Policy{}, failure(time.Now()))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), l.Path()) {
		t.Errorf("have %v", err)
	}
	if state := apply(t, s, bench); state.Streak != 1 {
		t.Errorf("a reader sees a streak of %d", state.Streak)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if state := apply(t, s, bench, failure(time.Now())); state.Streak != 2 {
		t.Errorf("streak %d, want 2", state.Streak)
	}
}

func TestFilesAreForTheirOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	s := open(t, Config{Dir: dir, Rotate: 2000, SyncTransitions: true})
	for range 20 {
		apply(t, s, "model/x", failure(time.Now()))
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestNetworkFileSystemsAreKnown(t *testing.T) {
	for magic, name := range map[uint32]string{0x6969: "NFS", 0xFF534D42: "CIFS"} {
		if networkFileSystems[magic] != name {
			t.Errorf("%x is %q", magic, networkFileSystems[magic])
		}
	}
	if name := networkFileSystem("/proc"); name != "" {
		t.Errorf("/proc is taken for %s", name)
	}
}
