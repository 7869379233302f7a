package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"
)

// How often a lock that another process holds is tried again: ever more rarely,
// since a hundred processes that all try each millisecond leave the one that
// has it no processor to go on with.
const (
	firstTry = 50 * time.Microsecond
	lastTry  = 32 * time.Millisecond
)

// lock takes the lock file at path, waiting for it until ctx ends. The lock is
// the kernel's: it ends with the process, whatever that dies of.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		ok, err := l.TryLock()
		if err != nil {
			return nil, fmt.Errorf("filestore: lock %s: %w", path, err)
		}
		if ok {
			return func() { l.Close() }, nil
		}
		select {
		case <-ctx.Done():
			l.Close()
			return nil, fmt.Errorf("filestore: another process holds %s: %w", path, ctx.Err())
		case <-time.After(wait):
		}
	}
}
