//go:build unix

package mcp

import (
	"os"
	"os/exec"
	"syscall"
)

// signalGroup sends a signal to a process and all that it started.
func signalGroup(cmd *exec.Cmd, sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		syscall.Kill(-cmd.Process.Pid, s)
	}
}

func killGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGKILL) }

// terminateSignal asks a process to end.
const terminateSignal = syscall.SIGTERM
