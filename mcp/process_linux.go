package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a process a group of its own. If the guard is killed, so is
// the process.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
