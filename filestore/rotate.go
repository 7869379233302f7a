package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rotatedName is the name of the nth file that a log left behind.
func rotatedName(stem string, n int) string {
	return fmt.Sprintf("%s%s%06d%s", stem, oldMark, n, logSuffix)
}

// splitRotated is the inverse of rotatedName.
func splitRotated(name string) (stem string, n int, ok bool) {
	name, ok = strings.CutSuffix(name, logSuffix)
	if !ok {
		return "", 0, false
	}
	stem, number, ok := strings.Cut(name, oldMark)
	if !ok {
		return "", 0, false
	}
	n, err := strconv.Atoi(number)
	return stem, n, err == nil && n > 0 && rotatedName(stem, n) == name+logSuffix
}

func isRotated(name string) bool {
	_, _, ok := splitRotated(name)
	return ok && filepath.Base(name) == name
}

// full reports whether the log is to be rotated: it is long, whatever the size
// of its states, and no line waits for a state.
func (s *Store) full(c *circuit) bool {
	j := &c.journal
	return j.file != nil && j.end >= max(s.limit, c.rotateAt, 4*heft(&j.state)) && len(j.pending) == 0
}

// rotate starts a new log with a checkpoint of the state and leaves the old
// one behind under a number. The caller holds the lock, and the log is full.
// The new file takes the place of the old one in one step, so that there is
// always a log. Where the file system cannot do that, the old one stays.
func (s *Store) rotate(c *circuit, now time.Time) error {
	path := s.path(c.name, logSuffix)
	rotated, err := s.rotated(c.name)
	if err != nil {
		return err
	}
	number := 1
	if len(rotated) > 0 {
		last := rotated[len(rotated)-1]
		number = last.number + 1
		if info, err := os.Stat(filepath.Join(s.dir, last.name)); err == nil && os.SameFile(info, c.journal.file) {
			number = last.number // somebody died in the middle of this
		}
	}
	name := rotatedName(fileName(c.name), number)
	old, temp := filepath.Join(s.dir, name), s.path(c.name, newSuffix)

	next := journal{circuit: c.name, state: c.journal.state, view: c.journal.state}
	b := newBatch(&next, c.policy, now)
	b.before = previous{name: name, read: c.journal.end}
	b.checkpoint(next.state)
	defer os.Remove(temp)
	if err := os.WriteFile(temp, b.buf, 0o600); err != nil {
		return err
	}
	info, err := os.Stat(temp)
	if err != nil {
		return err
	}
	if err := os.Link(path, old); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(old))
	}
	next.written(info, b)
	c.journal, c.late, c.rotateAt = next, 0, 0
	s.removeOld(now)
	return nil
}

// rotatedFile is a file that a log left behind.
type rotatedFile struct {
	name   string
	number int
}

// rotated lists the files that the circuit's log left behind, oldest first.
func (s *Store) rotated(circuit string) ([]rotatedFile, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	want := fileName(circuit)
	var files []rotatedFile
	for _, e := range entries {
		if stem, n, ok := splitRotated(e.Name()); ok && stem == want {
			files = append(files, rotatedFile{e.Name(), n})
		}
	}
	slices.SortFunc(files, func(a, b rotatedFile) int { return a.number - b.number })
	return files, nil
}

// removeOld removes what logs left behind and nobody has written to for as long
// as such files are kept. What cannot be removed is left for another time.
func (s *Store) removeOld(now time.Time) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !isRotated(e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(now.Add(-s.keep)) {
			os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
}

// grown returns the lines that programs which keep a rotated file open have
// appended to it since, and how far it is accounted for with them.
func (s *Store) grown(c *circuit, log *os.File) ([][]byte, previous, error) {
	from := c.journal.before
	if from.name == "" {
		return nil, from, nil
	}
	path := filepath.Join(s.dir, from.name)
	info, err := os.Stat(path)
	if err != nil || info.Size() <= from.read {
		return nil, from, ignoreMissing(err)
	}
	if from, err = latestPrevious(log, c.journal.end); err != nil || info.Size() <= from.read {
		c.journal.before = from
		return nil, from, err
	}
	c.journal.before = from
	old, err := os.Open(path)
	if err != nil {
		return nil, from, ignoreMissing(err)
	}
	defer old.Close()
	var texts [][]byte
	for l, err := range lines(io.NewSectionReader(old, from.read, info.Size()-from.read), from.read) {
		if err != nil {
			return nil, from, err
		}
		if !l.ended {
			break
		}
		from.read = l.end
		if !l.tooLong && !l.blank() {
			texts = append(texts, append([]byte(nil), l.text...))
		}
	}
	return texts, from, nil
}

// fetch copies what programs appended to a rotated file into the log.
func (s *Store) fetch(c *circuit, log *os.File, b *batch) error {
	texts, from, err := s.grown(c, log)
	if err != nil || len(texts) == 0 {
		return err
	}
	for _, text := range texts {
		e, err := parse(text, c.name)
		if err != nil {
			b.buf = append(append(b.buf, text...), '\n') // to be reported with the others
			b.bare = true
			continue
		}
		if e.State != nil {
			if text, err = b.encode(&e); err != nil {
				return err
			}
		}
		b.unstated(text, e)
	}
	b.before, c.late = from, 0
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
