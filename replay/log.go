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
	circuits  []string         // by canonical name
	names     map[string]int32 // their index
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
		options: o, sorter: sorter{room: o.room},
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

// Malformed is how many lines so far were skipped because they are no records.
func (l *Log) Malformed() int { return l.malformed }

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
		if index, err = l.spelled(string(r.circuit)); err != nil {
			l.malformed++
			return nil
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
		index = l.circuit(canonical)
	}
	l.spellings[name] = index
	return index, nil
}

// circuit returns the index of the circuit of that canonical name.
func (l *Log) circuit(name string) int32 {
	index, ok := l.names[name]
	if !ok {
		index = int32(len(l.circuits))
		l.circuits = append(l.circuits, name)
		l.names[name] = index
	}
	return index
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

// Replay puts the calls to their circuits and returns what came of it. It, or
// Tune, can be called once.
func (l *Log) Replay() (Report, error) {
	if len(l.circuits) == 0 {
		l.circuit(l.options.Circuit)
	}
	e := newEngine(l.options.Changed)
	for _, name := range l.circuits {
		p, err := l.options.Policy(name)
		if err != nil {
			return Report{}, err
		}
		e.add(name, p, seedFor(l.options.Seed, name))
	}
	if err := l.run(e); err != nil {
		return Report{}, err
	}
	report := Report{Malformed: l.malformed}
	for _, name := range slices.Sorted(maps.Keys(l.names)) {
		report.Summaries = append(report.Summaries, e.circuits[l.names[name]].summary)
	}
	return report, nil
}

// run puts the calls through each of the engines.
func (l *Log) run(engines ...*engine) error {
	if err := l.sorter.sorted(); err != nil {
		return err
	}
	all, err := unfold(&joined{calls: &l.sorter})
	if err != nil {
		return err
	}
	var done int64
	for {
		c, more, err := all.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		for _, e := range engines {
			if err := e.start(&c); err != nil {
				return err
			}
		}
		if c.index > 0 {
			continue
		}
		if done++; done%(1<<16) == 0 && l.options.Progress != nil {
			l.options.Progress(done, l.records)
		}
	}
	for _, e := range engines {
		if err := e.finish(); err != nil {
			return err
		}
	}
	return nil
}
