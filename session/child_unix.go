//go:build unix

package session

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that are passed on.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT}

// child is the process and how signals reach it. Before a terminal it shares
// our process group, so that job control works as ever and the terminal's own
// signals reach it without us. Elsewhere it leads a group of its own, so that a
// signal reaches its children too.
type child struct {
	cmd   *exec.Cmd
	group bool
}

func newChild(cmd *exec.Cmd) *child {
	c := &child{cmd: cmd, group: !onTerminal(cmd.Stdin, cmd.Stdout, cmd.Stderr)}
	if c.group {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	return c
}

// onTerminal reports whether one of the streams is a terminal that we are in
// the foreground of.
func onTerminal(streams ...any) bool {
	return slices.ContainsFunc(streams, func(s any) bool {
		f, ok := s.(*os.File)
		if !ok {
			return false
		}
		foreground, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
		return err == nil && foreground == unix.Getpgrp()
	})
}

// sharesTerminal reports whether a terminal's own signals reach the child without us.
func (c *child) sharesTerminal() bool { return !c.group }

// notify has the signals sent to us, except those that we were started to
// ignore: the child ignores them as well (nohup).
func (c *child) notify(signals chan<- os.Signal) {
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
}

// pass sends a signal on. What a terminal sends has reached the child already.
func (c *child) pass(s os.Signal) {
	if !c.group && (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH || s == syscall.SIGCONT) {
		return
	}
	c.send(s.(syscall.Signal))
}

func (c *child) end()  { c.send(syscall.SIGTERM) }
func (c *child) kill() { c.send(syscall.SIGKILL) }

// send signals the child. It may have ended already: that is no matter.
func (c *child) send(s syscall.Signal) {
	pid := c.cmd.Process.Pid
	if c.group {
		pid = -pid
	}
	_ = syscall.Kill(pid, s)
}

// ends reports whether a signal asks a process to end.
func ends(s os.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// exitCode is the code that a shell would show.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// alive reports whether a process of that id runs.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
