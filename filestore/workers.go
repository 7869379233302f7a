package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

var _ fusebox.Presence = (*Store)(nil)

// workersDir holds a file for each worker that is there, named by its ID. What
// it says ends with its time; whoever announces itself clears such files away.
const (
	workersDir   = "workers"
	workerSuffix = ".json"
	maxWorker    = 1 << 20 // bytes
)

// worker is what such a file holds.
type worker struct {
	fusebox.Worker
	Until time.Time `json:"until"` // when it is gone, unless it comes again
}

// isThere reports whether the worker's time is not over. One that was seen in
// the future was so before the clock was set back.
func (w *worker) isThere(now time.Time) bool {
	return now.Before(w.Until) && w.Seen.Sub(now) < w.Until.Sub(w.Seen)
}

// Announce implements fusebox.Presence.
func (s *Store) Announce(ctx context.Context, w fusebox.Worker, ttl time.Duration) error {
	if err := s.announce(ctx, w, ttl); err != nil {
		return fmt.Errorf("filestore: announce this worker: %w", err)
	}
	return nil
}

func (s *Store) announce(ctx context.Context, w fusebox.Worker, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return fusebox.ErrClosed
	}
	dir := filepath.Join(s.dir, workersDir)
	path := filepath.Join(dir, fileName(w.ID)+workerSuffix)
	if ttl <= 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w.Seen = s.now()
	others, err := s.clearWorkers(dir, path, w.Seen)
	if err != nil {
		return err
	}
	if others >= fusebox.MaxWorkers {
		return fmt.Errorf("%d others are there already", others)
	}
	text, err := json.Marshal(worker{w, w.Seen.Add(ttl)})
	if err != nil {
		return err
	}
	fresh := path + newSuffix
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// clearWorkers removes the files of workers whose time is over, and counts the
// others but for the one at path.
func (s *Store) clearWorkers(dir, path string, now time.Time) (others int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		other := filepath.Join(dir, entry.Name())
		if other == path || other == path+newSuffix {
			continue
		}
		if w, err := readWorker(other); err == nil && w.isThere(now) {
			others++
		} else if !errors.Is(err, fs.ErrNotExist) && changedBefore(entry, now.Add(-time.Minute)) { // else it may be about to be written
			os.Remove(other)
		}
	}
	return others, nil
}

func changedBefore(entry fs.DirEntry, t time.Time) bool {
	info, err := entry.Info()
	return err == nil && info.Mode().IsRegular() && info.ModTime().Before(t)
}

// Workers implements fusebox.Presence.
func (s *Store) Workers(ctx context.Context) ([]fusebox.Worker, error) {
	if s.isClosed() {
		return nil, fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
	}
	dir := filepath.Join(s.dir, workersDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("filestore: list workers: %w", err)
	}
	var there []fusebox.Worker
	now := s.now()
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("filestore: list workers: %w", err)
		}
		if !strings.HasSuffix(entry.Name(), workerSuffix) || len(there) == fusebox.MaxWorkers {
			continue
		}
		if w, err := readWorker(filepath.Join(dir, entry.Name())); err == nil && w.isThere(now) {
			there = append(there, w.Worker)
		}
	}
	slices.SortFunc(there, fusebox.Worker.Compare)
	return there, nil
}

func readWorker(path string) (w worker, err error) {
	f, err := os.Open(path)
	if err != nil {
		return w, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxWorker))
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(text, &w)
}
