package mcp

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's Ctrl-C from reaching the process twice.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// signalGroup does nothing: there is no signal that asks a process to end, the
// end of its input has to do.
func signalGroup(*exec.Cmd, os.Signal) {}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }

const terminateSignal = syscall.SIGTERM
