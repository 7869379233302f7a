package main

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// circuitsHeld is how many circuits are made to see what one takes.
const circuitsHeld = 100_000

// heavy is from how many bytes on fewer circuits are made, for want of memory.
const heavy = 4096

// bytesTable prints what an idle circuit takes, and one that has seen a failure.
func (f *findings) bytesTable(out io.Writer) error {
	fmt.Fprintf(out, "### Bytes per circuit\n\nHeap and stacks after a collection, of %s circuits (%s where one takes more than %s bytes), each in a process of its own. fusebox's have a name and an entry in a box; the others are bare, but for hystrix-go's.\n\n",
		thousands(circuitsHeld), thousands(circuitsHeld/50), thousands(heavy))
	t := newTable("library", "rule", "idle", "after one failure", "ratio", "goroutines")
	for _, r := range []rule{streak, rate} {
		var ours float64
		for _, l := range libraries {
			if l.name == fuseboxDo.name || l.name == fuseboxStored.name || l.name == failsafeRun.name || l.name == gobreakerByHand.name || l.open(r, oddLimit) == nil {
				continue // the same circuit as another one's
			}
			n := circuitsHeld
			h, err := heldApart(l, r, 2000)
			if err == nil && h.idle < heavy {
				h, err = heldApart(l, r, n)
			}
			if err != nil {
				return err
			}
			if ours == 0 {
				ours = float64(h.idle)
			}
			if _, ok := f.bytes[l.name]; !ok {
				f.bytes[l.name] = [2]int64{h.idle, h.failed}
			}
			t.row(l.name, string(r), thousands(h.idle), thousands(h.failed), short(float64(h.idle)/ours), strconv.FormatInt(h.goroutines, 10))
		}
	}
	t.print(out)
	return nil
}

// held is what one circuit takes.
type held struct{ idle, failed, goroutines int64 }

// heldApart is hold in a process of its own.
func heldApart(l library, r rule, n int) (h held, err error) {
	said, err := startChild("bytes", l.name, string(r), strconv.Itoa(n)).Output()
	if err != nil {
		return h, fmt.Errorf("bytes of %s: %w", l.name, err)
	}
	_, err = fmt.Fscan(strings.NewReader(string(said)), &h.idle, &h.failed, &h.goroutines)
	return h, err
}

// hold makes n circuits and measures them.
func hold(l library, r rule, n int) held {
	hystrixAtOnce = 10 // its default: its room is made in advance
	circuits := make([]circuit, n)
	create := func(int) circuit { return l.open(r, 5) }
	if ours(l) {
		create = inOneBox(r)
	}
	goroutines := runtime.NumGoroutine()
	before := memory()
	for i := range circuits {
		circuits[i] = create(i)
	}
	idle := memory()
	for _, c := range circuits {
		c.loop(1, []error{errBroken})
	}
	time.Sleep(100 * time.Millisecond) // hystrix-go counts it in a goroutine of its own
	failed := memory()
	h := held{int64(idle-before) / int64(n), int64(failed-before) / int64(n), int64(runtime.NumGoroutine()-goroutines) / int64(n)}
	runtime.KeepAlive(circuits)
	return h
}

func inOneBox(r rule) func(int) circuit {
	box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return fuseboxPolicy(r, 5) }})
	if err != nil {
		panic(err)
	}
	return func(i int) circuit { return byHand{fuseboxCircuit(box, "model/backend/"+strconv.Itoa(i))} }
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
