package admin

import (
	"sync"

	"github.com/fusebox-go/fusebox"
)

// other is the label that everything shares that has none of its own.
const other = "other"

// labels bounds the circuits that have a label of their own: the first so many
// to be seen.
type labels struct {
	max int

	mu    sync.RWMutex
	known map[string]bool
}

func newLabels(max int) *labels { return &labels{max: max, known: map[string]bool{}} }

// of returns the circuit's label. It is safe for concurrent use.
func (l *labels) of(circuit string) string {
	l.mu.RLock()
	known, full := l.known[circuit], len(l.known) >= l.max
	l.mu.RUnlock()
	if known {
		return circuit
	}
	if full {
		return other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= l.max && !l.known[circuit] {
		return other
	}
	l.known[circuit] = true
	return circuit
}

// classLabel keeps to the classes that there are: records of other programs
// may say anything.
func classLabel(c fusebox.Class) string {
	if c == "" {
		return ""
	}
	if known, err := fusebox.ParseClass(string(c)); err == nil {
		return string(known)
	}
	return other
}

func reasonLabel(r fusebox.Reason) string {
	switch r {
	case fusebox.ReasonOpen, fusebox.ReasonProbing, fusebox.ReasonThrottled, fusebox.ReasonThrash, fusebox.ReasonStuck, fusebox.ReasonHeld:
		return string(r)
	}
	return other
}
