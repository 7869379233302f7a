package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Process is a command to run as if this program were not there: its streams,
// its signals and its exit code are the caller's.
type Process struct {
	Args           []string // the command and its arguments
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string      // nil = this process's
	Timeout        time.Duration // after which it is asked to end, and killed after Grace; 0 = none
	Grace          time.Duration // 0 = 10 s
	Limit          *Limit        // nil = the output is not looked at, and is passed on without a copy
}

const (
	defaultGrace = 10 * time.Second
	pipeDelay    = 2 * time.Second // for what a child's children still hold open
	signalDelay  = 50 * time.Millisecond
)

// Exit codes of commands that could not be started, as shells give them.
const (
	exitNotFound  = 127
	exitNoExecute = 126
)

// Ended tells how a process ended.
type Ended struct {
	Code        int // of its exit; 128+n where signal n killed it
	Elapsed     time.Duration
	TimedOut    bool
	Interrupted bool   // a signal that we were sent was passed on before it ended
	Err         error  // why it could not be started, or how it ended badly; nil = exit 0
	Limit       string // the line that tells of a usage limit; "" = none
	Until       time.Time
}

// Run runs the process to its end.
func (p *Process) Run() Ended {
	began := time.Now()
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Env, p.Stdin, p.Stdout, p.Stderr
	cmd.WaitDelay = pipeDelay
	var seen tail
	if p.Limit.Active() {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(p.Stdout, &seen), io.MultiWriter(p.Stderr, &seen)
	}
	child := newChild(cmd)
	signals := make(chan os.Signal, 16)
	child.notify(signals)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return Ended{Code: startCode(err), Err: err, Elapsed: time.Since(began)}
	}
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait() }()
	ended := p.wait(child, signals, exit)
	ended.Elapsed = time.Since(began)
	ended.Code = exitCode(cmd.ProcessState)
	if ended.Code == 0 {
		ended.Err = nil // what a grandchild still held open is no matter
	}
	if p.Limit.Active() {
		ended.Limit, ended.Until, _ = p.Limit.Find(seen.String(), time.Now())
	}
	return ended
}

// wait passes signals on until the child has ended.
func (p *Process) wait(child *child, signals <-chan os.Signal, exit <-chan error) (ended Ended) {
	var deadline, killing <-chan time.Time
	if p.Timeout > 0 {
		timer := time.NewTimer(p.Timeout)
		defer timer.Stop()
		deadline = timer.C
	}
	for {
		select {
		case ended.Err = <-exit:
			if ended.Err != nil && !ended.Interrupted && child.sharesTerminal() {
				ended.Interrupted = endsSoon(signals)
			}
			return ended
		case s := <-signals:
			if ends(s) {
				ended.Interrupted = true
			}
			child.pass(s)
		case <-deadline:
			ended.TimedOut = true
			child.end()
			grace := p.Grace
			if grace == 0 {
				grace = defaultGrace
			}
			timer := time.NewTimer(grace)
			defer timer.Stop()
			killing = timer.C
		case <-killing:
			child.kill()
		}
	}
}

// endsSoon reports whether a signal that asks to end is there or about to come.
// A terminal sends it to the child and to us at once, and the child's end may
// be seen first.
func endsSoon(signals <-chan os.Signal) bool {
	timer := time.NewTimer(signalDelay)
	defer timer.Stop()
	for {
		select {
		case s := <-signals:
			if ends(s) {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNoExecute
}

// Result is what the end says of the session. A usage limit without a time is
// taken to last for fallback. Whether a failure was fast enough to count is the
// policy's matter.
func (e *Ended) Result(now time.Time, fallback time.Duration) fusebox.Result {
	switch {
	case e.Limit != "":
		until := e.Until
		if until.IsZero() {
			until = now.Add(fallback)
		}
		return fusebox.Result{Outcome: fusebox.Throttled, NotBefore: until.UTC(), Err: errors.New(e.Limit)}
	case e.TimedOut:
		return fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassTimeout, Err: fmt.Errorf("still running after %v", e.Elapsed.Round(time.Millisecond))}
	case e.Err == nil:
		return fusebox.Result{}
	case e.Interrupted:
		return fusebox.Result{Outcome: fusebox.Canceled, Err: e.Err}
	}
	return fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Err: e.Err}
}
