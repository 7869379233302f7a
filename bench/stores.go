package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
)

// evidenceStore takes evidence in: fold it into the circuit's state, keep both,
// as one step that no other process comes between.
type evidenceStore interface {
	apply(events ...fusebox.Event) error
	close() error
}

// storeKind is a way of keeping evidence on a disk.
type storeKind struct {
	name string
	open func(dir string) (evidenceStore, error)
	// alone says that one process at a time may have it open, so that others
	// must open and close it for every event.
	alone bool
}

// storeKinds are filestore and what one would take in its place. None of them
// waits for the disk.
var storeKinds = []storeKind{
	{name: "filestore", open: openFilestore},
	{name: "SQLite (modernc)", open: openSQLite},
	{name: "bbolt", open: openBolt, alone: true},
}

const storedCircuit = "session/claude"

type fileStore struct{ s *filestore.Store }

func openFilestore(dir string) (evidenceStore, error) {
	s, err := filestore.Open(filestore.Config{Dir: dir})
	return fileStore{s}, err
}

func (f fileStore) apply(events ...fusebox.Event) error {
	_, err := f.s.Apply(context.Background(), storedCircuit, fusebox.Policy{}, events...)
	return err
}

func (f fileStore) close() error { return f.s.Close() }

// record is what the others keep of an event, beside the state after it.
func record(old []byte, e fusebox.Event) (event, state []byte, err error) {
	var s fusebox.State
	if len(old) > 0 {
		if err := json.Unmarshal(old, &s); err != nil {
			return nil, nil, err
		}
	}
	s = fusebox.Fold(fusebox.DefaultPolicy("session"), s, e)
	state, err = json.Marshal(s)
	return e.AppendJSON(nil), state, err
}

// usual is the evidence of which there is most.
func usual() fusebox.Event {
	return fusebox.Event{At: time.Now(), Circuit: storedCircuit, Outcome: fusebox.Success, Elapsed: time.Millisecond, Worker: "host-1"}
}

// storedBefore is how many records a store holds when it is measured: about as
// many as a file of filestore's, before it begins another.
const storedBefore = 15_000

func fillStore(k storeKind, dir string) error {
	s, err := k.open(dir)
	if err != nil {
		return err
	}
	events := make([]fusebox.Event, 500)
	for range storedBefore / len(events) {
		for i := range events {
			events[i] = usual()
		}
		if err := s.apply(events...); err != nil {
			return err
		}
	}
	return s.close()
}

// storeWay is a way of using a store.
type storeWay string

const (
	kept  storeWay = "append"          // open once, then fold event after event
	fresh storeWay = "open-fold-close" // as a one-shot command does, for every event
)

// storeLaps does n events the store's way and returns what each took, in
// microseconds.
func storeLaps(k storeKind, way storeWay, dir string, n int) (took spread, err error) {
	var s evidenceStore
	if way == kept {
		if s, err = k.open(dir); err != nil {
			return nil, err
		}
		defer s.close()
	}
	for range n {
		start := time.Now()
		if way == fresh {
			if s, err = k.open(dir); err != nil {
				return nil, err
			}
		}
		if err := s.apply(usual()); err != nil {
			return nil, err
		}
		if way == fresh {
			if err := s.close(); err != nil {
				return nil, err
			}
		}
		took.add(float64(time.Since(start)) / float64(time.Microsecond))
	}
	return took, nil
}

// storeLapsChild is storeLaps in a process of its own.
func storeLapsChild(args []string) error {
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	for _, k := range storeKinds {
		if k.name != args[0] {
			continue
		}
		took, err := storeLaps(k, storeWay(args[1]), args[2], n)
		for _, micros := range took {
			fmt.Println(micros)
		}
		return err
	}
	return fmt.Errorf("no store %q", args[0])
}

// stores measures the stores with one and with eight processes.
func (f *findings) stores(out io.Writer) error {
	fmt.Fprintf(out, "## Stores on a disk\n\nMicroseconds for one event, in a circuit of which %s are kept. Append: the process has it open. Open-fold-close: as a one-shot command does. All fold with the same code and wait for no disk.\n\n", thousands(storedBefore))
	t := newTable("way", "processes", "store", "p50 µs", "middle half", "p99 µs", "ratio")
	for _, way := range []storeWay{kept, fresh} {
		for _, processes := range []int{1, 8} {
			took, err := f.storeRounds(way, processes)
			if err != nil {
				return err
			}
			for i, k := range storeKinds {
				s := took[i]
				name := k.name
				if k.alone && processes > 1 && way == kept {
					name += " (opened for each: one process at a time may)"
				}
				t.row(string(way), strconv.Itoa(processes), name, short(s.median()), s.middle(), short(s.at(0.99)), short(s.median()/took[0].median()))
				f.stored[storeKey{k.name, way, processes}] = s
			}
		}
	}
	t.print(out)
	return nil
}

type storeKey struct {
	store     string
	way       storeWay
	processes int
}

// storeRounds lets the stores take turns.
func (f *findings) storeRounds(way storeWay, processes int) ([]spread, error) {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	took := make([]spread, len(storeKinds))
	var failed error
	var laps []func()
	for i, k := range storeKinds {
		home := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(home, 0o700); err != nil {
			return nil, err
		}
		if err := fillStore(k, home); err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		used := way
		if k.alone && processes > 1 {
			used = fresh
		}
		laps = append(laps, func() {
			if failed == nil {
				var s spread
				s, failed = storeProcesses(k, used, home, processes, 200/processes)
				took[i] = append(took[i], s...)
			}
		})
	}
	interleave(max(f.rounds/2, 3), laps)
	return took, failed
}

// storeProcesses runs so many processes at once, each with n events.
func storeProcesses(k storeKind, way storeWay, dir string, processes, n int) (all spread, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			said, childErr := startChild("store", k.name, string(way), dir, strconv.Itoa(n)).Output()
			mu.Lock()
			defer mu.Unlock()
			if childErr != nil {
				err = fmt.Errorf("%s: %w", k.name, childErr)
			}
			for _, line := range strings.Fields(string(said)) {
				if micros, parseErr := strconv.ParseFloat(line, 64); parseErr == nil {
					all.add(micros)
				}
			}
		})
	}
	wg.Wait()
	return all, err
}
