package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/fusebox-go/fusebox"
)

// LineError says which line of which file cannot be read. It matches
// fusebox.ErrMalformed.
type LineError struct {
	File   string
	Line   int   // from 1
	Offset int64 // byte of the file at which the line begins
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }

// Evidence implements fusebox.Store: every record of the circuit's log, those
// of rotated files first. Records that carry the state after them have it in
// Event.State. A malformed line is yielded as a *[LineError].
func (s *Store) Evidence(ctx context.Context, circuit string, since time.Time) iter.Seq2[fusebox.Event, error] {
	return func(yield func(fusebox.Event, error) bool) {
		name, err := fusebox.CanonicalName(circuit)
		if err == nil && s.isClosed() {
			err = fmt.Errorf("filestore: %s: %w", s.dir, fusebox.ErrClosed)
		}
		if err != nil {
			yield(fusebox.Event{}, err)
			return
		}
		emit := func(e fusebox.Event, err error) bool {
			if ctx.Err() != nil {
				yield(fusebox.Event{}, ctx.Err())
				return false
			}
			if err == nil && e.At.Before(since) {
				return true
			}
			return yield(e, err)
		}
		if err := s.readAll(name, since, emit); err != nil {
			yield(fusebox.Event{}, fmt.Errorf("filestore: %w", err))
		}
	}
}

// readAll gives every line of the circuit's files to emit until it returns false.
func (s *Store) readAll(circuit string, since time.Time, emit func(fusebox.Event, error) bool) error {
	log, err := openLog(s.path(circuit, logSuffix)) // first: it may be rotated while the others are read
	if err != nil || log == nil {
		return err
	}
	defer log.Close()
	files, err := s.rotated(circuit)
	if err != nil {
		return err
	}
	present, err := log.Stat()
	if err != nil {
		return err
	}
	for i, file := range files {
		path := filepath.Join(s.dir, file.name)
		info, err := os.Stat(path)
		if err != nil {
			if ignoreMissing(err) == nil {
				continue // too old by now
			}
			return err
		}
		if os.SameFile(info, present) {
			break // rotated since: it is the log itself
		}
		if info.ModTime().Before(since) {
			continue
		}
		size := info.Size()
		next := s.path(circuit, logSuffix)
		if i+1 < len(files) {
			next = filepath.Join(s.dir, files[i+1].name)
		}
		if from, err := previousOf(next); err == nil && from.name == file.name {
			size = min(size, from.read) // what came later is in the file after it
		}
		if more, err := readFile(path, circuit, 0, size, emit); err != nil || !more {
			return err
		}
	}
	if more, err := readLines(log, circuit, 0, present.Size(), emit); err != nil || !more {
		return err
	}
	before, err := latestPrevious(log, present.Size())
	if err != nil || before.name == "" {
		return err
	}
	path := filepath.Join(s.dir, before.name) // of which the log does not have the last lines, if it has grown
	info, err := os.Stat(path)
	if err != nil || info.Size() <= before.read {
		return ignoreMissing(err)
	}
	_, err = readFile(path, circuit, before.read, info.Size(), emit)
	return err
}

// previousOf reads from the file at path which one it continues.
func previousOf(path string) (previous, error) {
	f, err := os.Open(path)
	if err != nil {
		return previous{}, err
	}
	defer f.Close()
	return firstPrevious(f)
}

func readFile(path, circuit string, from, size int64, emit func(fusebox.Event, error) bool) (more bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return true, ignoreMissing(err)
	}
	defer f.Close()
	return readLines(f, circuit, from, size, emit)
}

// readLines gives the lines that begin at byte from or after it to emit.
func readLines(f *os.File, circuit string, from, size int64, emit func(fusebox.Event, error) bool) (more bool, err error) {
	number := 0
	var c cursor
	for l, err := range lines(io.NewSectionReader(f, 0, size), 0) {
		if err != nil {
			return false, err
		}
		number++
		if l.blank() || l.start < from {
			continue
		}
		e, err := l.parse(circuit)
		if err != nil && !l.ended {
			err = fmt.Errorf("%w (it has no line end: torn, or still being written)", err)
		}
		if err != nil {
			err = &LineError{File: f.Name(), Line: number, Offset: l.start, Err: err}
		} else if holds := c.holds(l.text, &e, l.start, l.end); !holds && e.Kind != fusebox.KindCheckpoint {
			e.State = nil // a copy from elsewhere
		}
		if !emit(e, err) {
			return false, nil
		}
	}
	return true, nil
}

// Report is what [Store.Inspect] finds in a circuit's files.
type Report struct {
	Circuit   string
	Records   int
	Malformed int     // lines that were skipped
	Problems  []error // the first of them, each a *[LineError], and older files that cannot be read
}

// maxProblems bounds what a report names one by one.
const maxProblems = 100

// Inspect reads all of a circuit's files and reports what is wrong with them.
func (s *Store) Inspect(ctx context.Context, circuit string) (Report, error) {
	name, err := fusebox.CanonicalName(circuit)
	if err != nil {
		return Report{}, err
	}
	report := Report{Circuit: name, Problems: readLegacy(s.dir, name).errs}
	for _, err := range s.Evidence(ctx, name, time.Time{}) {
		var bad *LineError
		switch {
		case err == nil:
			report.Records++
		case errors.As(err, &bad):
			report.Malformed++
			if len(report.Problems) < maxProblems {
				report.Problems = append(report.Problems, bad)
			}
		default:
			return report, err
		}
	}
	return report, nil
}
