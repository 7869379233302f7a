package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

const (
	legacyWindow   = time.Hour // in which a counter counts, where the policy has no window
	maxLegacyCount = 1000      // more failures than that say nothing more
)

// legacy is what the files of an older harness say of a circuit.
type legacy struct {
	failures int
	at       time.Time // when they were counted
	blocked  time.Time // end of the block; zero = none
	files    []string  // that hold the block
	errs     []error   // what cannot be read
}

// legacyStems returns the stems of the older files of a circuit.
func legacyStems(circuit string) []string {
	stems := []string{fileName(circuit)}
	if name, ok := strings.CutPrefix(circuit, "session/"); ok {
		stems = append(stems, fileName(name))
	}
	return stems
}

// readLegacy reads the older files of a circuit. Nothing that is wrong with
// them stops a decision.
func readLegacy(dir, circuit string) legacy {
	var l legacy
	for _, stem := range legacyStems(circuit) {
		l.readFailures(filepath.Join(dir, stem+failureSuffix))
		l.readBlocked(filepath.Join(dir, stem+blockedSuffix))
	}
	return l
}

func (l *legacy) readFailures(path string) {
	text, modified, ok := l.readShort(path)
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		l.errs = append(l.errs, fmt.Errorf("%s: want a whole number, have %q", path, text))
		return
	}
	if n > 0 && modified.After(l.at) {
		l.failures, l.at = min(n, maxLegacyCount), modified
	}
}

func (l *legacy) readBlocked(path string) {
	text, _, ok := l.readShort(path)
	if !ok {
		return
	}
	until, err := time.Parse(time.RFC3339Nano, text)
	if err != nil { // written without a zone: it is UTC
		until, err = time.Parse("2006-01-02T15:04:05.999999999", strings.Replace(text, " ", "T", 1))
	}
	if err != nil || until.Year() < 1970 || until.Year() > 2200 {
		l.errs = append(l.errs, fmt.Errorf("%s: want one time such as 2026-11-29T13:09:00Z, have %q", path, text))
		return
	}
	l.files = append(l.files, path)
	if until.After(l.blocked) {
		l.blocked = until.UTC()
	}
}

// readShort returns what a file of one value holds.
func (l *legacy) readShort(path string) (text string, modified time.Time, ok bool) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", time.Time{}, false
	}
	var info os.FileInfo
	var b []byte
	if err == nil {
		defer f.Close()
		info, err = f.Stat()
	}
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(f, 200))
	}
	if err != nil {
		l.errs = append(l.errs, err)
		return "", time.Time{}, false
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "?")), info.ModTime().Round(0).UTC(), true
}

// events returns the counted failures as evidence, if they still count at now.
func (l *legacy) events(circuit string, p fusebox.Policy, now time.Time) []fusebox.Event {
	if p.IsZero() {
		p = fusebox.DefaultPolicy(fusebox.Kind(circuit))
	}
	within := p.Window()
	if within == 0 {
		within = legacyWindow
	}
	if l.failures == 0 || l.at.Before(now.Add(-within)) || l.at.After(now) {
		return nil
	}
	events := make([]fusebox.Event, l.failures)
	for i := range events {
		events[i] = fusebox.Event{At: l.at, Circuit: circuit, Outcome: fusebox.Failure, Error: "counted in an older file"}
	}
	return events
}

// block puts the block over s, unless an operator's hold says more.
func (l *legacy) block(s *fusebox.State, now time.Time) {
	if !l.blocked.After(now) {
		return
	}
	if h := s.Hold; h != nil && (h.Until.IsZero() || h.Until.After(now)) {
		if h.To == fusebox.Closed || h.Until.IsZero() || h.Until.After(l.blocked) {
			return
		}
	}
	s.Hold = &fusebox.Hold{To: fusebox.Open, At: now, Until: l.blocked, Reason: "blocked by an older file"}
}

// lift removes the block: an operator has lifted it.
func (l *legacy) lift() error {
	for _, path := range l.files {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
