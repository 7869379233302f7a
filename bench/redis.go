package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redisServer is a redis-server of this run's own. It keeps nothing on a disk.
type redisServer struct {
	*server
	dir    string
	client rueidis.Client // for looking, not for what is measured
}

// noRedis is what a part prints that needs a server where there is none.
const noRedis = "redis-server is not installed here: left out.\n\n"

func hasRedis() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// startRedis starts a server on a free port and waits until it answers.
func startRedis() (*redisServer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &redisServer{server: &server{cmd, address}, dir: dir}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true})
		if err == nil {
			return r, nil
		}
		if time.Now().After(deadline) {
			r.server.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func (r *redisServer) stop() {
	r.client.Close()
	r.server.stop()
	os.RemoveAll(r.dir)
}

func (r *redisServer) url() string { return "redis://" + r.address + "/0" }

// do runs a command of the server and returns its answer as text.
func (r *redisServer) do(command ...string) (string, error) {
	return r.client.Do(context.Background(), r.client.B().Arbitrary(command...).Build()).ToString()
}

// clear forgets all keys and begins to count anew.
func (r *redisServer) clear() error {
	for _, command := range [][]string{{"FLUSHALL"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := r.do(command...); err != nil {
			return fmt.Errorf("redis: %s: %w", command[0], err)
		}
	}
	return nil
}

// served is what the server did since it was cleared.
type served struct {
	commands float64 // those that scripts ran too
	reads    float64 // from connections: about one a round trip
	micros   float64 // of CPU time
}

// since is what was served after before, by so many calls, for each.
func (s served) since(before served, calls int) served {
	n, look := float64(calls), 1.0 // one read was of the looking
	return served{(s.commands - before.commands) / n, (s.reads - before.reads - look) / n, (s.micros - before.micros) / n}
}

func (r *redisServer) served() (s served, err error) {
	info, err := r.do("INFO", "everything")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",") // cmdstat_get:calls=21,usec=175,…
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil, name == "cmdstat_info": // the looking
		case strings.HasPrefix(name, "cmdstat_"):
			s.commands += n
		case name == "total_reads_processed":
			s.reads = n
		case name == "used_cpu_user", name == "used_cpu_sys":
			s.micros += 1e6 * n
		}
	}
	return s, nil
}

// crowds are the numbers of workers at one store.
var crowds = []int{1, 10, 50, 100}

// redis measures the fleet's store.
func (f *findings) redis(out io.Writer) error {
	fmt.Fprint(out, "## A store for a fleet\n\n")
	if !hasRedis() {
		fmt.Fprint(out, noRedis)
		return nil
	}
	redis, err := startRedis()
	if err != nil {
		return err
	}
	defer redis.stop()
	version, err := redis.version()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "One redis-server %s on this machine. The workers are in one process, each with connections of its own.\n\n", version)
	if err := f.contention(out, redis, crowds); err != nil {
		return err
	}
	if err := f.push(out, redis, crowds); err != nil {
		return err
	}
	return f.throughput(out, redis, crowds, usualMill)
}

func (r *redisServer) version() (string, error) {
	info, err := r.do("INFO", "server")
	_, rest, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r")
	return version, err
}
