package filestore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/fusebox-go/fusebox"
)

// journal is what one process knows of one circuit's log: the newest recorded
// state and the lines that it does not account for.
type journal struct {
	circuit string

	file   os.FileInfo // which file it is; nil = none read yet
	size   int64       // its size when it was read
	end    int64       // bytes read: all lines that have a line end
	seam   []byte      // the last bytes read: proof that the file is the one it was
	cursor cursor
	before previous // the file before the last rotation

	state   fusebox.State  // the newest recorded one
	pending []pendingLine  // not in it
	unended *fusebox.Event // the last line, if it is a record but for the line end
	newest  time.Time      // of the pending lines' times

	view   fusebox.State // state with the first `folded` pending lines on top
	folded int
	future bool // some of them lay in the future when they were folded
}

// pendingLine is a line without a state that holds.
type pendingLine struct {
	event fusebox.Event
	end   int64
}

const seamLength = 64

// refresh reads what was appended to f since it was last read, or f's tail if
// it is another file or was cut short. It reports whether there was anything.
func (j *journal) refresh(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	fresh := j.file == nil || !os.SameFile(j.file, info) || info.Size() < j.size
	if !fresh && info.Size() == j.size {
		return false, nil
	}
	if !fresh {
		seam := make([]byte, len(j.seam))
		if _, err := f.ReadAt(seam, j.end-int64(len(seam))); err != nil || !bytes.Equal(seam, j.seam) {
			fresh = true
		}
	}
	if fresh {
		if err := j.load(f, info); err != nil {
			return false, err
		}
		return true, nil
	}
	if info.Size()-j.end > muchNews {
		if err := j.skip(f, info.Size()); err != nil {
			return false, err
		}
	}
	return true, j.read(f, info.Size())
}

// muchNews is how many bytes are read line by line: about eight lines.
const muchNews = 4 << 10

// skip leaves out lines that a later one accounts for: where many processes
// write, there are as many between two looks of one.
func (j *journal) skip(f io.ReaderAt, size int64) error {
	start, err := lastStated(f, j.end, size, j.circuit)
	if start > j.end {
		j.end, j.cursor = start, cursor{stated: start}
	}
	return err
}

// load begins anew with f's tail.
func (j *journal) load(f *os.File, info os.FileInfo) error {
	*j = journal{circuit: j.circuit}
	start, err := lastStated(f, 0, info.Size(), j.circuit)
	if err != nil {
		return err
	}
	j.end = start
	j.cursor.stated = start
	if err := j.read(f, info.Size()); err != nil {
		return err
	}
	if start > 0 && j.before.name == "" {
		if j.before, err = firstPrevious(f); err != nil {
			return err
		}
	}
	j.file = info
	return nil
}

// read takes the lines from where reading stopped up to size.
func (j *journal) read(f io.ReaderAt, size int64) error {
	j.size, j.unended = size, nil
	for l, err := range lines(io.NewSectionReader(f, j.end, size-j.end), j.end) {
		if err != nil {
			return err
		}
		e, err := l.parse(j.circuit)
		if !l.ended { // somebody may be writing it
			if err == nil {
				j.unended = &e
			}
			break
		}
		j.end = l.end
		if err != nil {
			continue // reported by Inspect and Evidence
		}
		if from, ok := rotatedFrom(l.text, &e); ok {
			j.before = from
		}
		j.take(l.text, e, l.start, l.end)
	}
	j.seam = make([]byte, min(j.end, seamLength))
	if _, err := f.ReadAt(j.seam, j.end-int64(len(j.seam))); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// written notes that b is in the file, which is then as info says.
func (j *journal) written(info os.FileInfo, b *batch) {
	j.file, j.size, j.end, j.unended = info, b.end(), b.end(), nil
	j.seam = append([]byte(nil), b.buf[max(len(b.buf)-seamLength, 0):]...)
}

// take accounts for the line from start to end.
func (j *journal) take(text []byte, e fusebox.Event, start, end int64) {
	if j.cursor.holds(text, &e, start, end) {
		j.settle(*e.State)
		return
	}
	j.await(e, end)
}

// settle makes s the newest recorded state, as the cursor has just found it.
func (j *journal) settle(s fusebox.State) {
	rest := j.pending
	j.state, j.pending, j.newest = s, nil, time.Time{}
	j.view, j.folded, j.future = s, 0, false
	for _, p := range rest {
		if j.cursor.slippedIn(p.end) {
			j.await(p.event, p.end)
		}
	}
}

// await keeps e to be folded on top of the recorded state.
func (j *journal) await(e fusebox.Event, end int64) {
	j.pending = append(j.pending, pendingLine{e, end})
	if e.At.After(j.newest) {
		j.newest = e.At
	}
}

// at returns the state with every line folded, by a clock that says now. p is
// the policy where none is recorded.
func (j *journal) at(p fusebox.Policy, now time.Time) fusebox.State {
	if j.future || j.newest.After(now) || j.state.Policy.IsZero() {
		j.view, j.folded = j.state, 0 // what was judged before may be judged differently now
		j.future = j.newest.After(now)
	}
	for ; j.folded < len(j.pending); j.folded++ {
		j.view = foldAt(p, j.view, j.pending[j.folded].event, now)
	}
	return j.view
}

// foldAt folds a line that was read, by a clock that says now. The policy is
// the recorded one, or p where none is.
func foldAt(p fusebox.Policy, s fusebox.State, e fusebox.Event, now time.Time) fusebox.State {
	if e.Seen = (time.Time{}); e.At.After(now) {
		e.Seen = now
	}
	if !s.Policy.IsZero() {
		p = fusebox.Policy{}
	}
	return fusebox.Fold(p, s, e)
}

// replaces reports whether p, given now, takes the place of the recorded policy.
func replaces(p, recorded fusebox.Policy) bool {
	if p.IsZero() || p.Loaded.Before(recorded.Loaded) {
		return false
	}
	return !p.Equal(recorded)
}

// openLog opens a log for reading; nil means that there is none.
func openLog(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}
