//go:build unix

package redisstore

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// workerVariable tells a process that it is a worker of a fleet, and what it is
// to do, as JSON.
const workerVariable = "FUSEBOX_REDISSTORE_WORKER"

// task is what a worker's process does: it calls the backend every so often
// under the circuit that it shares through the store.
type task struct {
	Store   string
	Backend string
	Every   time.Duration
	After   time.Duration // of each such time: workers do not go in step
	Policy  fusebox.Policy
}

// account is what a worker's process says of itself.
type account struct {
	Phase   fusebox.Phase
	Version uint64
	Local   bool
	Calling bool // as begun before Phase was read
	Refused map[fusebox.Reason]int
	Opened  time.Time     // when it heard that the circuit had opened
	Worst   time.Duration // that a call waited for its permit
}

// process is a worker's process, seen from the test.
type process struct {
	command *exec.Cmd
	ask     io.WriteCloser
	said    *json.Decoder
}

func startProcess(t *testing.T, do task) *process {
	t.Helper()
	text, err := json.Marshal(do)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(os.Args[0], "-test.run=^$")}
	p.command.Env = append(os.Environ(), workerVariable+"="+string(text))
	p.command.Stderr = os.Stderr
	if p.ask, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.said = json.NewDecoder(out)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// crew is a fleet of processes.
type crew struct {
	*testing.T
	processes []*process
}

func startCrew(t *testing.T, n int, do task) *crew {
	t.Helper()
	c := &crew{T: t}
	t.Cleanup(c.end)
	for i := range n {
		do.After = do.Every * time.Duration(i) / time.Duration(n)
		c.processes = append(c.processes, startProcess(t, do))
	}
	return c
}

// end has every process end, and wants it to end well.
func (c *crew) end() {
	for _, p := range c.processes {
		if c.Failed() {
			p.command.Process.Kill()
		}
		p.ask.Close()
	}
	for i, p := range c.processes {
		if err := p.command.Wait(); err != nil && !c.Failed() {
			c.Errorf("worker %d: %v", i, err)
		}
	}
}

// accounts asks every process for its account.
func (c *crew) accounts() []account {
	c.Helper()
	for _, p := range c.processes {
		if _, err := fmt.Fprintln(p.ask); err != nil {
			c.Fatal(err)
		}
	}
	all := make([]account, len(c.processes))
	for i, p := range c.processes {
		if err := p.said.Decode(&all[i]); err != nil {
			c.Fatal(err)
		}
	}
	return all
}

// all waits until something is true of every process, and returns how long that
// took.
func (c *crew) all(what string, is func(account) bool) time.Duration {
	c.Helper()
	begin := time.Now()
	eventually(c.T, what, func() bool {
		for _, a := range c.accounts() {
			if !is(a) {
				return false
			}
		}
		return true
	})
	return time.Since(begin)
}

// refused counts the calls that were refused so far.
func (c *crew) refused() (n int) {
	c.Helper()
	for _, a := range c.accounts() {
		for _, times := range a.Refused {
			n += times
		}
	}
	return n
}

// work is the process's side: it works until its input ends, and gives an
// account for each line of it.
func work(text string) int {
	err := func() error {
		var do task
		if err := json.Unmarshal([]byte(text), &do); err != nil {
			return err
		}
		store, err := Open(Config{URL: do.Store})
		if err != nil {
			return err
		}
		defer store.Close()
		box, err := fusebox.New(fusebox.Config{
			Store: store, Report: 200 * time.Millisecond, Policy: func(string) fusebox.Policy { return do.Policy }})
		if err != nil {
			return err
		}
		circuit, err := box.Circuit(name)
		if err != nil {
			return err
		}
		l := &laborer{task: do, circuit: circuit, account: account{Refused: map[fusebox.Reason]int{}}}
		box.OnTransition(l.heard)
		go l.labor()
		for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
			if err := json.NewEncoder(os.Stdout).Encode(l.tell()); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// laborer is a worker in its own process.
type laborer struct {
	task
	circuit *fusebox.Circuit

	mu      sync.Mutex
	account account
}

func (l *laborer) tell() account {
	s := l.circuit.Status()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Phase, l.account.Version, l.account.Local = s.Phase, s.Version, s.Local
	told := l.account
	told.Refused = maps.Clone(told.Refused)
	return told
}

func (l *laborer) heard(t fusebox.Transition) {
	if t.From == fusebox.Closed && t.To == fusebox.Open {
		l.mu.Lock()
		l.account.Opened = time.Now()
		l.mu.Unlock()
	}
}

// labor makes one call after the other, for ever.
func (l *laborer) labor() {
	<-time.After(time.Until(time.Now().Truncate(l.Every).Add(l.Every + l.After)))
	for tick := time.NewTicker(l.Every); ; <-tick.C {
		l.call()
	}
}

func (l *laborer) call() {
	l.calling(true)
	defer l.calling(false)
	permit, err := l.allow()
	if err != nil {
		return
	}
	url := fmt.Sprintf("%s?probe=%t&local=%t", l.Backend, permit.Probe(), l.circuit.Status().Local)
	answer, err := http.Get(url)
	if err == nil {
		answer.Body.Close()
	}
	result := fusebox.Result{}
	if err != nil || answer.StatusCode != http.StatusOK {
		result = fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer}
	}
	permit.Done(result)
}

func (l *laborer) calling(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Calling = yes
}

// allow asks for a permit and notes how long that took, and what was refused.
func (l *laborer) allow() (fusebox.Permit, error) {
	begin := time.Now()
	permit, err := l.circuit.Allow(context.Background())
	took := time.Since(begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.Worst = max(l.account.Worst, took)
	if d := fusebox.AsDenial(err); d != nil {
		l.account.Refused[d.Reason()]++
	}
	return permit, err
}
