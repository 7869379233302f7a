package mcp

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is one life of a server.
type process struct {
	cmd    *exec.Cmd
	stdout *os.File

	mu    sync.Mutex // of who writes
	stdin *os.File

	exited chan struct{} // closed when it has ended and was waited for
	buried chan struct{} // closed when all that it said and owed was seen to
}

// startProcess starts a server in a process group of its own. stderr is the
// server's standard error, as it is.
func startProcess(command []string, stderr io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{}), buried: make(chan struct{})}
	ownGroup(p.cmd)
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		in.Close()
		stdin.Close()
		return nil, err
	}
	p.stdin, p.stdout = stdin, stdout
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, stderr
	p.cmd.WaitDelay = leftover // what it started may hold its standard error
	started := make(chan error)
	go func() {
		// The server ends with the thread that started it, where the system
		// offers that: see ownGroup.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		in.Close()
		out.Close()
		started <- err
		if err == nil {
			p.cmd.Wait() // how it ended is in ProcessState
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		stdin.Close()
		stdout.Close()
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	return p, nil
}

// write sends bytes to the server. The error says that it no longer reads.
func (p *process) write(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.stdin.Write(b)
	return err
}

// lives reports whether the process has not ended.
func (p *process) lives() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ends waits a little for a process that reads nothing more, and reports whether
// it has ended.
func (p *process) ends() bool {
	select {
	case <-p.buried:
		return true
	case <-time.After(2 * patience):
		return false
	}
}

// ending says how the process ended, as in "exit status 3".
func (p *process) ending() string {
	<-p.exited
	return p.cmd.ProcessState.String()
}

// code is the process's exit code; 1 if it was killed.
func (p *process) code() int {
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1
}

// How long a server may take to end.
const (
	patience = 1500 * time.Millisecond // from the end of its input, or from SIGTERM, each
	drain    = 10 * time.Second        // from the end of its input while calls are under way
	leftover = 500 * time.Millisecond  // for what it left in its pipe, once it has ended
)

// terminate ends the process and all that it started: asks, waits, kills.
func (p *process) terminate(sig os.Signal) {
	signalGroup(p.cmd, sig)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	p.kill()
}

// kill ends the process's group at once.
func (p *process) kill() {
	killGroup(p.cmd)
	<-p.exited
}
