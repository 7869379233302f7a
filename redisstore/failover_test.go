//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// A replica that had not heard of the trip takes over: whoever knows puts it
// back.
func TestFailoverThatLostTheTrip(t *testing.T) {
	primary := startServer(t)
	behind := startServer(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.port))
	p := startProxy(t, primary.host())
	fleet := newFleet(t, 3, p.url(), coolDown(time.Hour))
	fleet[0].fail(1)
	fleet[0].flush()
	inStep(primary, behind)
	if err := behind.do("REPLICAOF", "NO", "ONE").Error(); err != nil {
		t.Fatal(err)
	}
	fleet[0].fail(2)
	for _, w := range fleet {
		w.becomes(fusebox.Open)
	}
	primary.kill()
	begin := time.Now()
	p.lead(behind.host())
	eventually(t, "the new primary knows", func() bool { return stored(t, behind.url()).Phase == fusebox.Open })
	t.Logf("healed %v after the failover", time.Since(begin))
	for i, w := range fleet {
		if w.phase() != fusebox.Open {
			t.Errorf("worker %d is %v", i, w.phase())
		}
	}
}

// inStep waits until the replica has the circuit's state as the primary has it.
func inStep(primary, replica *server) {
	primary.Helper()
	state := func(s *server) string {
		text, _ := s.do("HGET", circuitKey("state"), "state").ToString()
		return text
	}
	primary.eventually("the replica is in step", func() bool {
		text := state(primary)
		return text != "" && text == state(replica)
	})
}

// circuitKey is the key of the tests' circuit.
func circuitKey(what string) string {
	return (&Store{prefix: DefaultPrefix}).keys(name).of(what)
}

// A sentinel promotes the replica of a primary that died.
func TestSentinelFailover(t *testing.T) {
	primary := startServer(t)
	replica := startServer(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.port))
	eventually(t, "the replica is in step", func() bool {
		text, _ := replica.do("INFO", "replication").ToString()
		return strings.Contains(text, "master_link_status:up")
	})
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor fleet 127.0.0.1 %d 1\nsentinel down-after-milliseconds fleet 500\nsentinel failover-timeout fleet 2000\n", primary.port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := startSentinel(t, file)
	eventually(t, "the sentinel knows the replica", func() bool {
		text, _ := sentinel.do("INFO", "sentinel").ToString()
		return strings.Contains(text, "slaves=1")
	})

	url := sentinel.url() + "?sentinel=fleet"
	fleet := newFleet(t, 2, url, coolDown(time.Hour))
	fleet[0].fail(2)
	fleet[0].flush()
	inStep(primary, replica) // a replica that just came is sent nothing for a moment
	primary.kill()
	begin := time.Now()
	fleet[1].fail(1)
	fleet[1].becomes(fusebox.Open)
	took := fleet[0].becomes(fusebox.Open)
	eventually(t, "the new primary knows", func() bool { return stored(t, replica.url()).Phase == fusebox.Open })
	t.Logf("the fleet agreed %v after the primary's death (%v waited for)", time.Since(begin), took)
	for i, w := range fleet {
		eventually(t, fmt.Sprintf("worker %d joins again", i), func() bool { return !w.circuit.Status().Local })
	}
}

// A cluster of three: every circuit lies on one node, all are listed, messages
// come from all. When a node dies, circuits of the others go on.
func TestCluster(t *testing.T) {
	const slots, nodes = 16384, 3
	var cluster []*server
	for i := range nodes {
		s := startServer(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-require-full-coverage", "no",
			"--cluster-node-timeout", "2000")
		cluster = append(cluster, s)
		first, last := slots*i/nodes, slots*(i+1)/nodes-1
		if err := s.do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)).Error(); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if err := s.do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(cluster[0].port)).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range cluster {
		s.eventually("the cluster is whole", func() bool {
			text, _ := s.do("CLUSTER", "INFO").ToString()
			known, _ := s.do("CLUSTER", "NODES").ToString()
			return strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_slots_assigned:16384") && strings.Count(known, "connected") == nodes
		})
	}
	url := cluster[0].url() + "?addr=" + cluster[1].host()
	a, b := openStore(t, url), openStore(t, url)
	told := make(chan string, 1000)
	go b.Watch(t.Context(), func(circuit string, s fusebox.State) {
		if s.Phase == fusebox.Open {
			told <- circuit
		}
	})
	var want []string
	at := time.Now().Add(-time.Second)
	e := fusebox.Event{At: at, Outcome: fusebox.Failure}
	for i := range 12 {
		circuit := fmt.Sprintf("model/provider/%02d", i)
		want = append(want, circuit)
		if _, err := b.Apply(t.Context(), circuit, policy()); err != nil {
			t.Fatal(err)
		}
		state, err := a.Apply(t.Context(), circuit, policy(), e, e, e)
		if err != nil || state.Phase != fusebox.Open {
			t.Fatalf("%s: %v, %v", circuit, state.Phase, err)
		}
	}
	heard := map[string]bool{}
	for len(heard) < len(want) {
		select {
		case circuit := <-told:
			heard[circuit] = true
		case <-time.After(20 * time.Second):
			t.Fatalf("heard of %d circuits, want %d", len(heard), len(want))
		}
	}
	var got []string
	for circuit, err := range a.Circuits(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, circuit)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	if err := a.Announce(t.Context(), fusebox.Worker{ID: "1", Name: "a"}, time.Hour); err != nil {
		t.Error(err)
	}
	if there, err := b.Workers(t.Context()); err != nil || len(there) != 1 || there[0].Name != "a" {
		t.Errorf("there are %+v, %v", there, err)
	}

	cluster[2].kill()
	served := 0
	for _, circuit := range want {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := a.Apply(ctx, circuit, policy(), fusebox.Event{At: time.Now(), Outcome: fusebox.Success}); err == nil {
			served++
		}
		cancel()
	}
	if served == 0 || served == len(want) {
		t.Errorf("%d of %d circuits are served without a node, want some", served, len(want))
	}
	t.Logf("%d of %d circuits are served without a node", served, len(want))
}

// startSentinel starts a sentinel with that configuration.
func startSentinel(t *testing.T, file string) *server {
	t.Helper()
	s := &server{TB: t, port: freePort(t)}
	s.launch(file, "--sentinel", "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", t.TempDir())
	t.Cleanup(s.kill)
	return s
}
