package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// growingWorkers lets ever more share one circuit: goroutines of one process,
// and processes on one directory.
func (f *findings) growingWorkers(out io.Writer) error {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := fillLog(dir, storedBefore); err != nil {
		return err
	}
	g := &grown{
		title: "workers", grows: "workers", columns: []string{"ns, goroutines, a success", "µs of CPU, processes, an event", "µs between events of all"},
		says: "Workers that share one circuit: goroutines of a process, and processes with a filestore, each of which reports without a pause.",
	}
	for _, size := range f.sizes(1, 3, 10, 30, 100) {
		c := byHand{newFusebox(streak, 5, nil)}
		const calls = 1_000_000
		g.lines = append(g.lines, &sized{size: size, run: func() ([]float64, error) {
			goroutines := nanos(calls, func() {
				var wg sync.WaitGroup
				for range size {
					wg.Go(func() { c.loop(calls/size, []error{nil}) })
				}
				wg.Wait()
			})
			cpu, between, err := gang(dir, size, max(f.times(2000)/size, 1))
			return []float64{goroutines, cpu, between}, err
		}})
	}
	return f.grow(out, g)
}

// gang lets so many processes take n events each into one circuit at once. It
// returns the CPU time of an event, and the time between one and the next of
// all, in microseconds.
func gang(dir string, processes, n int) (cpu, between float64, err error) {
	var workers []*gangWorker
	defer func() {
		for _, w := range workers {
			w.in.Close()
			err = errors.Join(err, w.cmd.Wait())
		}
	}()
	for range processes {
		w, err := startGangWorker(dir, n)
		if err != nil {
			return 0, 0, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers { // all are there
		if _, err := w.out.ReadString('\n'); err != nil {
			return 0, 0, err
		}
	}
	began := time.Now()
	for _, w := range workers {
		if _, err := io.WriteString(w.in, "go\n"); err != nil {
			return 0, 0, err
		}
	}
	var used time.Duration
	for _, w := range workers {
		var micros int64
		if _, err := fmt.Fscanln(w.out, &micros); err != nil {
			return 0, 0, err
		}
		used += time.Duration(micros) * time.Microsecond
	}
	events := float64(processes * n)
	return float64(used.Microseconds()) / events, float64(time.Since(began).Microseconds()) / events, nil
}

type gangWorker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startGangWorker(dir string, n int) (*gangWorker, error) {
	cmd := startChild("gang", dir, strconv.Itoa(n))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &gangWorker{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// gangChild is one of them: it opens the store, waits to be told, and says
// how much CPU time its events took, in microseconds.
func gangChild(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := openFilestore(args[0])
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.apply(usual()); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	before := cpuTime()
	for range n {
		if err := s.apply(usual()); err != nil {
			return err
		}
	}
	fmt.Println((cpuTime() - before).Microseconds())
	return nil
}
