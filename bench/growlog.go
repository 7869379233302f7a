package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
)

// growingLog opens ever longer logs, and reads them whole.
func (f *findings) growingLog(out io.Writer) error {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := buildFusebox(dir)
	if err != nil {
		return err
	}
	costs := &grown{
		title: "lines of a log", grows: "lines",
		columns: []string{"µs, open-fold-close", "µs of CPU a line, why", "µs of CPU a line, replay"},
		says:    "A log of so many lines, all rotations together: open it, take in one event and close it; and the commands that read all of it, their start included.",
	}
	memory := &grown{
		title: "memory, by lines of a log", grows: "lines", columns: []string{"MB, why", "MB, replay"},
		says: "The most memory that these commands had; less than some 20 MB cannot be told. Replay sorts what is more than 262,144 records in a temporary file.",
	}
	var readers [][2]*reading
	for _, size := range f.sizes(1000, 10_000, 100_000, 1_000_000) {
		home := filepath.Join(dir, fmt.Sprint(size))
		if err := fillLog(home, size); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(home, "*.jsonl"))
		if err != nil {
			return err
		}
		config := filepath.Join(dir, fmt.Sprintf("%d.yaml", size))
		if err := os.WriteFile(config, fmt.Appendf(nil, "store: file://%s\n", home), 0o600); err != nil {
			return err
		}
		why := &reading{lines: size, command: []string{binary, "why", "--config", config, storedCircuit}}
		replay := &reading{lines: size, command: append([]string{binary, "replay", "--trip", "streak=5", "--cooldown", "30s"}, files...)}
		costs.lines = append(costs.lines, &sized{size: size, run: func() ([]float64, error) {
			took, err := storeLaps(storeKind{name: "filestore", open: openFilestore}, fresh, home, f.times(20))
			if err != nil {
				return nil, err
			}
			whyTook, err := why.run()
			if err != nil {
				return nil, err
			}
			replayTook, err := replay.run()
			return []float64{took.median(), whyTook, replayTook}, err
		}})
		readers = append(readers, [2]*reading{why, replay})
	}
	if err := f.growIn(max(f.rounds/2, 3), out, costs); err != nil {
		return err
	}
	for _, r := range readers {
		memory.lines = append(memory.lines, &sized{size: r[0].lines, took: []spread{r[0].peaks, r[1].peaks}})
	}
	f.show(out, memory)
	return nil
}

// reading is a command that reads a log, and the most memory that each run had.
type reading struct {
	lines   int
	command []string
	peaks   spread // megabytes
}

// run runs the command and returns the CPU time of a line, in microseconds.
func (r *reading) run() (float64, error) {
	said, err := startChild(append([]string{"command"}, r.command...)...).Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.command[1], err)
	}
	var cpu, peak float64
	if _, err := fmt.Sscan(string(said), &cpu, &peak); err != nil {
		return 0, fmt.Errorf("%s: %w", r.command[1], err)
	}
	r.peaks.add(peak / 1e6)
	return cpu / float64(r.lines), nil
}

// commandChild runs a command and says what CPU time it took, in microseconds,
// and how many bytes of memory. It is a process of its own because Linux counts
// the memory of whoever starts a process as the process's, and this one is small.
func commandChild(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the system does not say what a process used")
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Println(cpu.Microseconds(), used.Maxrss<<10)
	return nil
}

func fillLog(dir string, lines int) error {
	s, err := filestore.Open(filestore.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	events := make([]fusebox.Event, 500)
	for range lines / len(events) {
		for i := range events {
			events[i] = usual()
		}
		if _, err := s.Apply(context.Background(), storedCircuit, fusebox.Policy{}, events...); err != nil {
			return err
		}
	}
	return nil
}
