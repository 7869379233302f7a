package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/fusebox-go/fusebox"
)

// calls is a sequence of calls: next returns one, or that there are no more.
type calls interface{ next() (call, bool, error) }

// sorter returns calls in the order of their starts. It keeps room of them in
// memory; when that is full they go to a temporary file as one sorted piece,
// and the pieces are merged at the end.
type sorter struct {
	room   int
	calls  []call
	file   *os.File
	size   int64
	pieces []int64 // where each piece in the file begins
	merged heap[piece]
}

// piece is a sorted sequence of calls: what is in memory, or part of the file.
type piece struct {
	head call
	rest calls
}

func (s *sorter) add(c call) error {
	s.calls = append(s.calls, c)
	if len(s.calls) < s.room {
		return nil
	}
	return s.spill()
}

// sorted ends the adding: from here on next returns the calls.
func (s *sorter) sorted() error {
	s.sortCalls()
	s.merged.before = func(a, b *piece) bool { return compareStarts(&a.head, &b.head) < 0 }
	for i, from := range s.pieces {
		to := s.size
		if i+1 < len(s.pieces) {
			to = s.pieces[i+1]
		}
		r := &spilled{in: bufio.NewReaderSize(io.NewSectionReader(s.file, from, to-from), 32<<10)}
		if err := s.merge(r); err != nil {
			return err
		}
	}
	return s.merge(&kept{s.calls})
}

func (s *sorter) merge(rest calls) error {
	head, more, err := rest.next()
	if more {
		s.merged.push(piece{head, rest})
	}
	return err
}

func (s *sorter) next() (call, bool, error) {
	if s.merged.empty() {
		return call{}, false, nil
	}
	p := s.merged.first()
	c := p.head
	head, more, err := p.rest.next()
	if more {
		p.head = head
		s.merged.fix()
	} else {
		s.merged.pop()
	}
	return c, true, err
}

func (s *sorter) sortCalls() {
	slices.SortFunc(s.calls, func(a, b call) int { return compareStarts(&a, &b) })
}

// spill writes what is in memory to the file as one sorted piece.
func (s *sorter) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp("", "fusebox-replay-*")
		if err != nil {
			return fmt.Errorf("replay: no temporary file to sort the log in, set TMPDIR to a directory with room: %w", err)
		}
		s.file = file
		os.Remove(file.Name()) // where an open file can go: then nothing stays behind, however the program ends
	}
	s.sortCalls()
	s.pieces = append(s.pieces, s.size)
	out := bufio.NewWriterSize(s.file, 256<<10)
	var line []byte
	var before call
	for i := range s.calls {
		line = appendCall(line[:0], &before, &s.calls[i])
		s.size += int64(len(line))
		if _, err := out.Write(line); err != nil {
			return spillError(err)
		}
		before = s.calls[i]
	}
	s.calls = s.calls[:0]
	return spillError(out.Flush())
}

func spillError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("replay: sorting the log: %w", err)
}

// close removes the temporary file.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

type kept struct{ calls []call }

func (k *kept) next() (call, bool, error) {
	if len(k.calls) == 0 {
		return call{}, false, nil
	}
	c := k.calls[0]
	k.calls = k.calls[1:]
	return c, true, nil
}

// spilled reads back what appendCall wrote.
type spilled struct {
	in     *bufio.Reader
	before call
	fixed  [11]byte
}

// appendCall appends c, as differences from the call before where those are small.
func appendCall(b []byte, before, c *call) []byte {
	b = binary.AppendVarint(b, c.start-before.start)
	b = binary.AppendVarint(b, c.end-c.start)
	b = binary.AppendVarint(b, c.last-c.end)
	b = binary.AppendVarint(b, c.line-before.line)
	b = binary.AppendVarint(b, c.n)
	b = binary.AppendVarint(b, int64(c.circuit))
	b = append(b, byte(c.outcome), c.class, byte(c.mark))
	return binary.LittleEndian.AppendUint64(b, c.exact)
}

func (s *spilled) next() (call, bool, error) {
	if _, err := s.in.Peek(1); err == io.EOF {
		return call{}, false, nil
	}
	var c call
	var numbers [6]int64
	for i := range numbers {
		n, err := binary.ReadVarint(s.in)
		if err != nil {
			return c, false, spillError(err)
		}
		numbers[i] = n
	}
	if _, err := io.ReadFull(s.in, s.fixed[:]); err != nil {
		return c, false, spillError(err)
	}
	c.start = s.before.start + numbers[0]
	c.end = c.start + numbers[1]
	c.last = c.end + numbers[2]
	c.line = s.before.line + numbers[3]
	c.n = numbers[4]
	c.circuit = int32(numbers[5])
	c.outcome, c.class, c.mark = fusebox.Outcome(s.fixed[0]), s.fixed[1], mark(s.fixed[2])
	c.exact = binary.LittleEndian.Uint64(s.fixed[3:])
	s.before = c
	return c, true, nil
}
