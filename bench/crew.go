package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// crew is the workers of a fleet, each a process of its own.
type crew []*member

type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startCrew starts a worker for every order, and waits until all are ready.
func startCrew(orders []order) (c crew, err error) {
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	for _, o := range orders {
		said, err := json.Marshal(o)
		if err != nil {
			return c, err
		}
		m := &member{cmd: startChild("worker", string(said))}
		out, err := m.cmd.StdoutPipe()
		if err != nil {
			return c, err
		}
		m.out = bufio.NewReader(out)
		if m.in, err = m.cmd.StdinPipe(); err != nil {
			return c, err
		}
		if err := m.cmd.Start(); err != nil {
			return c, err
		}
		c = append(c, m)
	}
	for _, m := range c {
		if _, err := m.out.ReadString('\n'); err != nil {
			return c, fmt.Errorf("a worker does not begin: %w", err)
		}
	}
	return c, nil
}

// begin lets all begin to call.
func (c crew) begin() error {
	for _, m := range c {
		if _, err := io.WriteString(m.in, "\n"); err != nil {
			return err
		}
	}
	return nil
}

// end ends all, and returns when each one's circuit opened; those are left out
// whose did not.
func (c crew) end() (opened []time.Time, err error) {
	force := time.AfterFunc(10*time.Second, c.kill)
	defer force.Stop()
	for _, m := range c {
		err = errors.Join(err, m.in.Close())
	}
	for _, m := range c {
		line, readErr := m.out.ReadString('\n')
		err = errors.Join(err, readErr, m.cmd.Wait())
		nanos, parseErr := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err = errors.Join(err, parseErr); nanos > 0 {
			opened = append(opened, time.Unix(0, nanos))
		}
	}
	return opened, err
}

func (c crew) kill() {
	for _, m := range c {
		m.cmd.Process.Kill()
	}
}
