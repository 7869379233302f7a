package session

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// starter is who starts a process, as the record of a start names it: the
// worker and the guard's process.
func starter(worker string) string { return fmt.Sprintf("%s:%d", worker, os.Getpid()) }

// Starts matches the starts of guarded processes in a log with their ends.
// What is left has no end: its guard still runs, or was killed.
type Starts struct {
	left  map[string]fusebox.Event // by the id that start and end share
	order []string
}

// Add takes in the next record of a log.
func (s *Starts) Add(e fusebox.Event) {
	switch {
	case e.Call == "":
	case e.Kind == fusebox.KindStart:
		if s.left == nil {
			s.left = map[string]fusebox.Event{}
		}
		s.left[e.Call] = e
		s.order = append(s.order, e.Call)
	case e.Kind == fusebox.KindEvidence:
		if _, started := s.left[e.Call]; started {
			delete(s.left, e.Call)
			s.order = slices.DeleteFunc(s.order, func(id string) bool { return id == e.Call })
		}
	}
}

// Unreported returns the starts whose guards are gone without a report, oldest
// first. worker is this machine's name among the workers: of the guards on
// others it cannot be told whether they still run, so these are left out.
func (s *Starts) Unreported(worker string) []fusebox.Event {
	var gone []fusebox.Event
	for _, id := range s.order {
		start := s.left[id]
		host, pid, found := cutLast(start.Worker, ":")
		n, err := strconv.Atoi(pid)
		if found && host == worker && err == nil && !alive(n) {
			gone = append(gone, start)
		}
	}
	return gone
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
