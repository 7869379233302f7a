package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fusebox-go/fusebox"
)

// Share implements fusebox.Sharer: for the processes of this machine. The
// claims lie in a file of their own, NAME.shares, which is rewritten under a
// lock. One that a crash has garbled counts as empty: its owners claim again.
func (s *Store) Share(ctx context.Context, name string, c fusebox.Claim) (share fusebox.Share, err error) {
	if err := c.Validate(); err != nil {
		return share, err
	}
	if name, err = fusebox.CanonicalName(name); err != nil {
		return share, err
	}
	if s.isClosed() {
		return share, fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return share, fmt.Errorf("filestore: %s: %w", name, err)
	}
	path := s.path(name, sharesSuffix)
	unlock, err := lock(ctx, path+lockSuffix)
	if err != nil {
		return share, err
	}
	defer unlock()
	held, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return share, fmt.Errorf("filestore: read the shares: %w", err)
	}
	shares := fusebox.Shares{}
	if json.Unmarshal(held, &shares) != nil || shares == nil {
		shares = fusebox.Shares{}
	}
	share = shares.Claim(c, s.now())
	written, err := json.Marshal(shares)
	if err == nil {
		err = os.WriteFile(path, written, 0o600)
	}
	if err != nil {
		return fusebox.Share{}, fmt.Errorf("filestore: write the shares: %w", err)
	}
	return share, nil
}
