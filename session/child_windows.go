package session

import (
	"os"
	"os/exec"
	"os/signal"
)

// child is the process. A console sends its signals to every process in it, so
// there is nothing to pass on.
type child struct{ cmd *exec.Cmd }

func newChild(cmd *exec.Cmd) *child { return &child{cmd} }

func (c *child) notify(signals chan<- os.Signal) { signal.Notify(signals, os.Interrupt) }
func (c *child) pass(os.Signal)                  {}
func (c *child) end()                            { c.kill() }

// sharesTerminal: a console's signals reach the child without us.
func (c *child) sharesTerminal() bool { return true }

// kill ends the child. It may have ended already: that is no matter.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

func ends(s os.Signal) bool { return s == os.Interrupt }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

// alive reports whether a process of that id runs.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return p.Release() == nil
}
