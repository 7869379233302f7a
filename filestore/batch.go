package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

const (
	manyMarks   = 64        // a state with more is not written with every line
	bytesOfMark = 24        // about what one takes
	maxUnstated = 128 << 10 // bytes of lines after which any state is written
)

// batch collects what one write appends to a log, and advances the journal as
// if it had been read back. If the write fails, the journal is void.
type batch struct {
	j      *journal
	p      fusebox.Policy
	now    time.Time
	start  int64 // byte of the file at which the write is meant to begin
	began  int64 // the same of its first line
	buf    []byte
	before previous // what the next checkpoint says of the rotated file, if it is not "" there
	bare   bool     // the last line has no state
	moved  bool     // the version changed
}

// newBatch begins a write at the end of the file that the journal has read.
func newBatch(j *journal, p fusebox.Policy, now time.Time) *batch {
	b := &batch{j: j, p: p, now: now, start: j.size, began: j.size}
	if b.closes() {
		b.buf = append(b.buf, '\n')
		b.began++
		if j.unended != nil {
			j.await(*j.unended, b.end())
		}
	}
	if j.state.Seed == 0 {
		j.state.Seed = rand.Uint64()>>11 | 1 // fits a JSON number
		j.view, j.folded = j.state, 0
	}
	return b
}

// closes reports whether the write begins with the line end of a torn line.
func (b *batch) closes() bool { return b.start > b.j.end }

// end is the byte of the file at which the write ends so far.
func (b *batch) end() int64 { return b.start + int64(len(b.buf)) }

// state returns the state with all that the batch holds.
func (b *batch) state() fusebox.State { return b.j.at(b.p, b.now) }

// adopt appends, before the events, a checkpoint and the transitions for what
// others appended, for a new policy, and for a clock that was set back.
func (b *batch) adopt() error {
	s := b.state()
	recorded := &b.j.state
	news := len(b.j.pending) > 0 && (light(&s) || s.Version != recorded.Version || recorded.Policy.IsZero())
	if !news && !(replaces(b.p, s.Policy) && !s.Policy.IsZero()) && !aheadOf(&s, b.now) && b.before.name == "" {
		return nil
	}
	var moves []fusebox.Transition
	at := *recorded
	for _, p := range b.j.pending {
		next := foldAt(b.p, at, p.event, b.now)
		b.moved = b.moved || next.Version != at.Version
		if t, changed := fusebox.Changed(b.j.circuit, &at, &next); changed {
			moves = append(moves, t)
		}
		at = next
	}
	b.checkpoint(setBack(s, b.now))
	for _, t := range moves {
		if err := b.line(t.Event()); err != nil {
			return err
		}
	}
	return nil
}

// add appends an event, and the transition that it causes.
func (b *batch) add(e fusebox.Event) error {
	before := b.state()
	e.MarkLate(&before)
	if err := b.line(e); err != nil {
		return err
	}
	after := b.state()
	t, changed := fusebox.Changed(b.j.circuit, &before, &after)
	if !changed {
		return nil
	}
	b.moved = true
	return b.line(t.Event())
}

// line appends one line, with the state after it where that is due. What is
// folded is what a reader of the line will see.
func (b *batch) line(e fusebox.Event) error {
	text, err := b.encode(&e)
	if err != nil {
		return err
	}
	if len(b.j.pending) == 0 && !e.At.After(b.now) {
		if s := foldAt(b.p, b.j.view, e, b.now); light(&s) {
			if e.State != nil { // the state after the line takes the place of the one it brought
				e.State = nil
				text = e.AppendJSON(text[:0])
			}
			b.stated(text, s)
			return nil
		}
	}
	b.unstated(text, e)
	return nil
}

// encode returns the event as a line, and makes e what reading it back gives.
func (b *batch) encode(e *fusebox.Event) ([]byte, error) {
	e.Circuit = b.j.circuit
	if e.Kind != fusebox.KindCheckpoint {
		e.State = nil
	} else if e.State != nil {
		s := *e.State
		s.Through = 0
		e.State = &s
	}
	text := e.AppendJSON(nil)
	read, err := parse(text, b.j.circuit)
	if err != nil {
		return nil, fmt.Errorf("an event that cannot be recorded: %w", err)
	}
	*e = read
	return text, nil
}

// unstated appends a line without a state.
func (b *batch) unstated(text []byte, e fusebox.Event) {
	b.buf = append(append(b.buf, text...), '\n')
	b.bare = true
	b.j.await(e, b.end())
}

// stated appends text, a JSON object, with the state after it.
func (b *batch) stated(text []byte, s fusebox.State) {
	s.Through = 0
	state, err := json.Marshal(&s)
	if err != nil {
		panic("filestore: a state that is no JSON: " + err.Error()) // all its fields are plain
	}
	from := b.end()
	b.buf = append(b.buf, text[:len(text)-1]...)
	b.buf = append(b.buf, `,"state":`...)
	b.buf = append(b.buf, state[:len(state)-1]...)
	b.buf = append(b.buf, `,"through":`...)
	s.Through = lineEnd(b.end(), len("}}\n"))
	b.buf = strconv.AppendInt(b.buf, s.Through, 10)
	b.buf = append(b.buf, "}}\n"...)
	b.bare = false
	b.j.cursor = cursor{stated: s.Through, gap: from}
	b.j.settle(s)
}

// lineEnd returns the byte at which a line ends that has come to byte at, goes
// on with that very number and then has so many bytes more.
func lineEnd(at int64, more int) int64 {
	for digits := 1; ; digits++ {
		end := at + int64(digits) + int64(more)
		if len(strconv.FormatInt(end, 10)) == digits {
			return end
		}
	}
}

// checkpoint appends a line that records the state s, with all lines before it.
func (b *batch) checkpoint(s fusebox.State) {
	e := fusebox.Event{Kind: fusebox.KindCheckpoint, At: b.now, Circuit: b.j.circuit}
	text := e.AppendJSON(nil)
	var r remark
	if b.before.name != "" {
		r.File, r.Size = b.before.name, b.before.read
		b.j.before, b.before = b.before, previous{}
	}
	if b.bare {
		r.Began = &b.began
	}
	if more, err := json.Marshal(r); err == nil && len(more) > len("{}") {
		text = append(append(text[:len(text)-1], ','), more[1:]...)
	}
	e.State = &s
	b.stated(text, fusebox.Fold(b.p, s, e))
}

// finish appends the state where it is due and no line carries it yet.
func (b *batch) finish() {
	if len(b.j.pending) == 0 {
		return
	}
	s := b.state()
	if b.moved || light(&s) || b.end()-b.j.cursor.stated > heft(&s) {
		b.checkpoint(s)
	}
}

// light reports whether s is short enough to be written with every line.
func light(s *fusebox.State) bool { return len(s.Marks)+len(s.Leases) <= manyMarks }

// heft is how many bytes of lines go before a heavy state is written again.
func heft(s *fusebox.State) int64 {
	return int64(min((len(s.Marks)+len(s.Leases))*bytesOfMark, maxUnstated))
}

// errGlued says that what was written cannot be told from what another program
// appended without a line end at the same moment. Nothing of it is in the file.
var errGlued = errors.New("another program appended a line without a line end")

// unglue looks where in f the write lies, after something slipped in before it,
// and takes it back if it was glued to a line that had no end.
func (b *batch) unglue(f *os.File, size int64) error {
	from := max(b.start-1, 0)
	text := make([]byte, size-from)
	if _, err := f.ReadAt(text, from); err != nil {
		return err
	}
	at := bytes.LastIndex(text, b.buf)
	if at < 0 {
		return errors.New("what was written is not there: somebody cut the file short")
	}
	alone := from+int64(at) == b.start || at > 0 && text[at-1] == '\n' && b.buf[0] != '\n'
	if alone {
		return nil
	}
	if at+len(b.buf) < len(text) {
		return errors.New("another program appended lines without line ends")
	}
	if err := f.Truncate(from + int64(at)); err != nil {
		return err
	}
	return errGlued
}
