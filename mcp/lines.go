package mcp

import (
	"bufio"
	"io"
	"sync"
)

// lines reads lines of any length.
type lines struct {
	r    *bufio.Reader
	long []byte // of a line that does not fit the reader's buffer
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line with its end, as the bytes that it is; the last
// may have no end. They are good until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err == nil {
		return line, nil
	}
	l.long = append(l.long[:0], line...)
	for err == bufio.ErrBufferFull {
		line, err = l.r.ReadSlice('\n')
		l.long = append(l.long, line...)
	}
	if len(l.long) > 0 {
		err = nil // the end comes with the next call
	}
	line = l.long
	if cap(l.long) > maxKept {
		l.long = nil
	}
	return line, err
}

// maxKept bounds the memory that is kept for the next long line.
const maxKept = 1 << 20

// output writes whole lines that come from several sides.
type output struct {
	mu   sync.Mutex
	w    io.Writer
	open bool // the last line had no end
	err  error
}

// pass writes a line as it is.
func (o *output) pass(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(line)
}

// say writes a line of the guard's own.
func (o *output) say(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open {
		o.write([]byte{'\n'})
	}
	return o.write(line)
}

func (o *output) write(line []byte) error {
	if o.err != nil || len(line) == 0 {
		return o.err
	}
	_, o.err = o.w.Write(line)
	o.open = line[len(line)-1] != '\n'
	return o.err
}
