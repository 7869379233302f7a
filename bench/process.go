package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// server is a server in a process of its own.
type server struct {
	cmd     *exec.Cmd
	address string // host:port
}

// serve starts cmd and takes its first line, which address makes an address of.
func serve(cmd *exec.Cmd, address func(line string) (string, error)) (*server, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.address, err = address(strings.TrimSpace(line))
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w", cmd.Path, err)
	}
	return s, nil
}

// asIs takes the whole line.
func asIs(line string) (string, error) { return line, nil }

// ofGateway reads what `fusebox up --json` says.
func ofGateway(line string) (string, error) {
	var said struct{ Gateway string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		return "", err
	}
	return strings.TrimPrefix(said.Gateway, "http://"), nil
}

// stop ends the process: by asking, then by force.
func (s *server) stop() {
	s.cmd.Process.Signal(os.Interrupt)
	force := time.AfterFunc(3*time.Second, func() { s.cmd.Process.Kill() })
	defer force.Stop()
	s.cmd.Wait()
}

// used is the CPU time of the process and its children so far.
func (s *server) used() time.Duration {
	var ticks int64
	for _, pid := range s.processes() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		for _, field := range []int{11, 12} { // user and system time
			n, _ := strconv.ParseInt(fields[field], 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100)
}

// peak is the most memory that the process and its children had, in bytes.
func (s *server) peak() int64 {
	var sum int64
	for _, pid := range s.processes() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kilobytes, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
				sum += kilobytes << 10
			}
		}
	}
	return sum
}

// processes are the process and its children.
func (s *server) processes() []int {
	pid := s.cmd.Process.Pid
	pids := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
