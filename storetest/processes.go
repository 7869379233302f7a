package storetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// process is a worker process that runs.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	errors  bytes.Buffer
}

// start starts a worker process: this test binary again.
func (b *bed) start(do task) *process {
	b.Helper()
	do.Address = b.address
	text, err := json.Marshal(do)
	if err != nil {
		b.Fatal(err)
	}
	p := &process{command: exec.CommandContext(b.Context(), os.Args[0], "-test.run=^$")}
	p.command.Env = append(os.Environ(), workerVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0") // else a process under the race detector takes a second to end
	p.command.Stderr = &p.errors
	out, err := p.command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if p.in, err = p.command.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		b.Fatal(err)
	}
	return p
}

// kill ends the process at once, as kill -9 does.
func (p *process) kill() { p.command.Process.Kill() }

// rest reads what the process says until it ends, and how it ended.
func (p *process) rest() (lines []string, err error) {
	for p.out.Scan() {
		lines = append(lines, p.out.Text())
	}
	if err = p.command.Wait(); err != nil {
		err = fmt.Errorf("%w: %s", err, p.errors.String())
	}
	return lines, err
}

// killedProcesses has several processes report numbered failures and kills each
// at a random moment, twice over. Every number that was acknowledged is in the
// log, once, in order; of each process at most one more is.
func killedProcesses(t *testing.T, b *bed) {
	const rounds, processes = 4, 4
	p := policy()
	p.Trip = []fusebox.Trip{fusebox.Count(50, time.Hour)} // it opens now and then
	p.Cooldown = fusebox.Cooldown{}
	acknowledged := map[string]int{}
	var mu sync.Mutex
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range processes {
			worker := fmt.Sprintf("%d-%d", round, i)
			child := b.start(task{Do: "report", Worker: worker, Policy: p, N: 1_000_000})
			killAfter := 1 + rand.IntN(60) // acknowledgements
			wg.Go(func() {
				last := -1
				for child.out.Scan() {
					n, err := strconv.Atoi(child.out.Text())
					if err != nil || n != last+1 {
						t.Errorf("worker %s said %q after %d", worker, child.out.Text(), last)
					}
					if last = n; n >= killAfter {
						child.kill()
					}
				}
				child.command.Wait()
				mu.Lock()
				acknowledged[worker] = last + 1
				mu.Unlock()
			})
		}
		wg.Wait()
	}
	found := map[string]int{}
	for e, err := range b.open().Evidence(t.Context(), name, time.Time{}) {
		if err != nil {
			continue // what a killed process left half written
		}
		if e.Kind != fusebox.KindEvidence {
			continue
		}
		if e.Call != strconv.Itoa(found[e.Worker]) {
			t.Fatalf("worker %s: record %s where %d was due", e.Worker, e.Call, found[e.Worker])
		}
		found[e.Worker]++
	}
	total := 0
	for worker, n := range acknowledged {
		total += n
		if extra := found[worker] - n; n == 0 || extra < 0 || extra > 1 {
			t.Errorf("worker %s: %d acknowledged, %d in the log", worker, n, found[worker])
		}
	}
	t.Logf("%d acknowledged", total)
}

func oneProbeOverProcesses(t *testing.T, b *bed) {
	p := policy()
	due(b, b.open(), p)
	marker := t.TempDir()
	var children []*process
	for i := range 4 {
		children = append(children, b.start(task{Do: "probe", Worker: fmt.Sprint("w", i), Policy: p, Marker: marker, N: 15}))
	}
	for i, child := range children {
		if said, err := child.rest(); err != nil || len(said) != 15 {
			t.Errorf("worker %d: %d probes, %v", i, len(said), err)
		}
	}
}

func killedProber(t *testing.T, b *bed) {
	s, p := b.open(), policy()
	due(b, s, p)
	child := b.start(task{Do: "take", Worker: "prober", Policy: p})
	if !child.out.Scan() || child.out.Text() != "true" {
		t.Fatalf("the prober said %q", child.out.Text())
	}
	deadline := b.apply(s, p).Leases[0].Until
	child.kill()
	child.command.Wait()
	for {
		state := b.apply(s, p)
		if state.Now.After(deadline.Add(10 * time.Second)) {
			t.Fatal("the slot does not come back")
		}
		if state.Decide(state.Now).Probe {
			if state.Now.Before(deadline) {
				t.Errorf("free %v before the lease's deadline", deadline.Sub(state.Now))
			}
			break
		}
	}
	if state := b.apply(s, p, lease("next", ago(0), ago(-time.Minute))); !state.HasLease("next") {
		t.Errorf("leases %+v, want the next one", state.Leases)
	}
}

// interleavedSessions is the morning of the first story: six sessions, four of
// them failing within seconds, never three in a row. A count sees it, whatever
// process reports which session and whoever comes first; a streak, which
// counts the order of completion, does not.
func interleavedSessions(t *testing.T, b *bed) {
	begin := ago(time.Hour)
	var morning []fusebox.Event
	for _, session := range []struct {
		minute  int
		outcome fusebox.Outcome
		took    time.Duration
	}{
		{1, fusebox.Failure, 5 * time.Second},
		{3, fusebox.Failure, 7 * time.Second},
		{5, fusebox.Success, 18 * time.Minute},
		{9, fusebox.Failure, 6 * time.Second},
		{14, fusebox.Success, 11 * time.Minute},
		{18, fusebox.Failure, 4 * time.Second},
	} {
		morning = append(morning, fusebox.Event{At: begin.Add(time.Duration(session.minute) * time.Minute),
			Outcome: session.outcome, Elapsed: session.took})
	}
	sessions := fusebox.DefaultPolicy("session")
	sessions.Trip = []fusebox.Trip{fusebox.Count(3, time.Hour)}
	streak := sessions
	streak.Trip = []fusebox.Trip{fusebox.Streak(3)}

	for _, test := range []struct {
		name   string
		policy fusebox.Policy
		atOnce bool
		want   fusebox.Phase
	}{
		{"count, all at once", sessions, true, fusebox.Open},
		{"count, one after the other", sessions, false, fusebox.Open},
		{"streak, one after the other", streak, false, fusebox.Closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &bed{T: t, subject: b.subject, address: b.subject.New(t)}
			var children []*process
			for i := range morning {
				children = append(children, b.start(task{Do: "speak", Worker: fmt.Sprint(i), Policy: test.policy}))
			}
			report := func(i int) {
				child, e := children[i], morning[i]
				if _, err := fmt.Fprintf(child.in, "%s\n", e.AppendJSON(nil)); err != nil || !child.out.Scan() {
					t.Errorf("worker %d: %v: %s", i, err, child.errors.String())
				}
			}
			var wg sync.WaitGroup
			for i := range morning {
				if test.atOnce {
					wg.Go(func() { report(i) })
				} else {
					report(i)
				}
			}
			wg.Wait()
			for i, child := range children {
				child.in.Close()
				if _, err := child.rest(); err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			}
			if state := b.apply(b.open(), fusebox.Policy{}); state.Phase != test.want {
				t.Errorf("the circuit is %v, want %v", state.Phase, test.want)
			}
		})
	}
}
