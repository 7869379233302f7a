package filestore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/fusebox-go/fusebox"
)

// line is one line of a log, without its line end.
type line struct {
	text       []byte // valid until the next line is read
	start, end int64  // bytes of the file; end is after the line end
	ended      bool   // false for a last line without a line end
	tooLong    bool   // longer than fusebox.MaxLine: text is not kept
}

// blank reports whether there is nothing in the line, which is no mistake.
func (l *line) blank() bool { return len(l.text) == 0 && !l.tooLong }

// lines reads r, which begins at byte start of its file. Memory is bounded
// whatever r holds.
func lines(r io.Reader, start int64) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		in := bufio.NewReaderSize(r, 16<<10)
		var kept []byte
		l := line{start: start, end: start}
		for {
			part, err := in.ReadSlice('\n')
			l.end += int64(len(part))
			switch {
			case l.tooLong:
			case len(kept)+len(part) > fusebox.MaxLine+1:
				l.tooLong, l.text, kept = true, nil, nil
			case err == nil && len(kept) == 0:
				l.text = part
			default:
				kept = append(kept, part...)
				l.text = kept
			}
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && err != io.EOF {
				yield(line{}, err)
				return
			}
			l.ended = err == nil
			l.text = bytes.TrimSpace(l.text)
			if l.end > l.start && !yield(l, nil) {
				return
			}
			if err == io.EOF {
				return
			}
			kept = kept[:0]
			l = line{start: l.end, end: l.end}
		}
	}
}

// parse reads a line of the circuit's log. Errors match fusebox.ErrMalformed.
func (l *line) parse(circuit string) (fusebox.Event, error) {
	if l.tooLong {
		return fusebox.Event{}, fmt.Errorf("%w: a line of %d bytes, at most %d are read",
			fusebox.ErrMalformed, l.end-l.start, fusebox.MaxLine)
	}
	return parse(l.text, circuit)
}

func parse(text []byte, circuit string) (fusebox.Event, error) {
	e, err := fusebox.ParseEvent(text)
	if err != nil {
		return e, err
	}
	if e.Circuit != "" && e.Circuit != circuit {
		return e, fmt.Errorf("%w: it is of circuit %q, in the log of %q", fusebox.ErrMalformed, e.Circuit, circuit)
	}
	e.Circuit = circuit
	if e.State != nil && !bytes.Contains(text, stateKey) {
		e.State.Through = 0 // spelled as nobody here spells it: it accounts for nothing
	}
	return e, nil
}

// cursor goes along a log and tells which of its recorded states hold, and
// which lines before them they account for.
type cursor struct {
	stated int64 // end of the last line whose state holds
	shift  int64 // how much later that line ends than its state says
	gap    int64 // byte at which its writer's write was meant to begin: what lies shift bytes from there slipped in
}

// holds reports whether the state that the line from start to end carries can
// be trusted. It advances the cursor.
func (c *cursor) holds(text []byte, e *fusebox.Event, start, end int64) bool {
	if e.State == nil || e.State.Through <= 0 || e.State.Through > end {
		return false
	}
	shift := end - e.State.Through
	gap := start - shift
	if shift > 0 {
		if began, ok := beganAt(text, e); ok {
			gap = began
		}
		sameWrite := shift == c.shift && (start == c.stated || gap == c.gap)
		if sameWrite {
			gap = c.gap
		} else if gap < c.stated {
			return false // a copy from elsewhere: it would leave out lines that had a state
		}
	}
	c.stated, c.shift, c.gap = end, shift, gap
	return true
}

// slippedIn reports whether the line that ends at end came into the log while
// the last stated line's writer was about to write.
func (c *cursor) slippedIn(end int64) bool { return c.gap < end && end <= c.gap+c.shift }

// stateKey is in every line that carries a state.
var stateKey = []byte(`"state":`)

// lastStated returns where the last line begins whose state accounts for every
// byte before it; from there a cursor finds the rest. It looks no further back
// than floor, where a line begins, and returns that if there is none. It reads
// backwards, and little: lines are at the tail.
func lastStated(r io.ReaderAt, floor, size int64, circuit string) (int64, error) {
	for window := int64(8 << 10); ; window *= 4 {
		from := max(size-window, floor)
		b := make([]byte, size-from)
		if n, err := r.ReadAt(b, from); err != nil && (err != io.EOF || n < len(b)) {
			return 0, err
		}
		first := from // of the lines that lie in b whole
		if from > floor {
			cut := bytes.IndexByte(b, '\n') + 1
			b = b[cut:]
			first += int64(cut)
			if cut == 0 {
				b = nil
			}
		}
		for len(b) > 0 {
			at := bytes.LastIndexByte(b[:len(b)-1], '\n') + 1
			start, end := first+int64(at), first+int64(len(b))
			if text := b[at:]; len(text) <= fusebox.MaxLine && bytes.Contains(text, stateKey) {
				e, err := parse(text, circuit)
				if err == nil && e.State != nil && e.State.Through == end {
					return start, nil
				}
			}
			b = b[:at]
		}
		if from == floor {
			return floor, nil
		}
		if window > 4*fusebox.MaxLine {
			return floor, nil // nothing for so long: read it from the beginning, line by line
		}
	}
}
