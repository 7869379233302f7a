package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/fusebox-go/fusebox"
)

const (
	maxLine    = 1 << 20 // bytes of a line; a longer one is malformed
	sortBuffer = 1 << 18 // calls sorted in memory
)

// Options say how a log is replayed.
type Options struct {
	// Policy is asked once for each circuit. What it returns must be valid and
	// not zero: a replay has no defaults of a kind. Its error ends the replay.
	Policy func(circuit string) (fusebox.Policy, error)

	// Circuit, a canonical name, leaves out every other circuit, and is the
	// name of what records without one tell of. "" = all circuits; then records
	// without a name are taken for one circuit's, whose name is "".
	Circuit string

	// Seed decides on the jitter of cooldowns.
	Seed uint64

	// Changed is called with each transition, in order; nil = nobody asks. Its
	// error ends the replay.
	Changed func(fusebox.Transition) error

	// Progress is called now and then with the records replayed so far; nil =
	// nobody asks.
	Progress func(done, all int64)

	room int // calls sorted in memory; 0 = sortBuffer
}

// Log is recorded evidence under replay: Read it, from as many files as there
// are, then Replay, then Close. It is for one goroutine.
type Log struct {
	options   Options
	engine    *engine
	names     map[string]int32 // index of a circuit by its name
	spellings map[string]int32 // and by each spelling in the log; -1 = left out
	sorter    sorter
	scanner   scanner
	records   int64 // of evidence, that were not left out
	malformed int
}

// NewLog begins a replay.
func NewLog(o Options) *Log {
	if o.room == 0 {
		o.room = sortBuffer
	}
	return &Log{
		options: o, engine: newEngine(o.Changed), sorter: sorter{room: o.room},
		names: map[string]int32{}, spellings: map[string]int32{},
	}
}

// Close removes the temporary file, if one was needed.
func (l *Log) Close() error { return l.sorter.close() }

// Read takes in JSON Lines of evidence to their end. Lines that are no records
// are skipped and counted; blank ones are skipped.
func (l *Log) Read(r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			l.malformed++
			err = skipLine(in)
			line = nil
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("replay: reading the log: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := l.take(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// skipLine reads up to the end of the line.
func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// take takes in one line.
func (l *Log) take(line []byte) error {
	var r record
	if !l.scanner.scan(line, &r) {
		e, err := fusebox.ParseEvent(line)
		if err != nil {
			l.malformed++
			return nil
		}
		if e.Kind != fusebox.KindEvidence {
			return nil
		}
		r = recordOf(&e)
	}
	index, ok := l.spellings[string(r.circuit)]
	if !ok {
		var err error
		index, err = l.spelled(string(r.circuit))
		if errors.Is(err, fusebox.ErrName) {
			l.malformed++
			return nil
		}
		if err != nil {
			return err
		}
	}
	if index < 0 {
		return nil
	}
	l.records++
	return l.sorter.add(r.call(l.records, index))
}

// spelled returns the index of the circuit that the log calls name.
func (l *Log) spelled(name string) (int32, error) {
	canonical := l.options.Circuit
	if name != "" {
		var err error
		if canonical, err = fusebox.CanonicalName(name); err != nil {
			return 0, err
		}
	}
	index := int32(-1)
	if l.options.Circuit == "" || l.options.Circuit == canonical {
		var err error
		if index, err = l.circuit(canonical); err != nil {
			return 0, err
		}
	}
	l.spellings[name] = index
	return index, nil
}

// circuit returns the index of the circuit of that canonical name.
func (l *Log) circuit(name string) (int32, error) {
	if index, ok := l.names[name]; ok {
		return index, nil
	}
	p, err := l.options.Policy(name)
	if err != nil {
		return 0, err
	}
	index := int32(len(l.engine.circuits))
	l.engine.add(name, p, seedFor(l.options.Seed, name))
	l.names[name] = index
	return index, nil
}

// seedFor gives each circuit a jitter of its own.
func seedFor(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64() ^ seed
}

// call makes r the call, or the run of successes, that it tells of.
func (r *record) call(line int64, circuit int32) call {
	c := call{
		end: r.at, last: r.at, line: line, exact: r.exact, n: 1,
		circuit: circuit, outcome: r.outcome, class: r.class, mark: r.mark,
	}
	if r.outcome == fusebox.Success && r.n > 1 {
		c.n = r.n
		if r.since != 0 {
			c.end = min(r.since, r.at)
		}
	}
	c.start = c.end - int64(r.elapsed)
	return c
}

// Replay puts the calls to their circuits and returns what came of it.
func (l *Log) Replay() (Report, error) {
	if len(l.engine.circuits) == 0 {
		if _, err := l.circuit(l.options.Circuit); err != nil {
			return Report{}, err
		}
	}
	if err := l.sorter.sorted(); err != nil {
		return Report{}, err
	}
	all, err := unfold(&joined{calls: &l.sorter})
	if err != nil {
		return Report{}, err
	}
	var done int64
	for {
		c, more, err := all.next()
		if err != nil {
			return Report{}, err
		}
		if !more {
			break
		}
		if err := l.engine.start(&c); err != nil {
			return Report{}, err
		}
		if c.index == 0 {
			done++
		}
		if l.options.Progress != nil && c.index == 0 && done%(1<<16) == 0 {
			l.options.Progress(done, l.records)
		}
	}
	if err := l.engine.finish(); err != nil {
		return Report{}, err
	}
	return l.report(), nil
}

func (l *Log) report() Report {
	r := Report{Malformed: l.malformed}
	for _, name := range slices.Sorted(maps.Keys(l.names)) {
		r.Summaries = append(r.Summaries, l.engine.circuits[l.names[name]].summary)
	}
	return r
}
