//go:build unix

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// One worker whose own network is broken: it stops for itself, also its
// neighbour on the same host, and nobody else is refused. Once the backend fails
// for others too, the circuit opens for all.
func TestI17OneBadWorker(t *testing.T) {
	s := startServer(t)
	p := coolDown(time.Hour)
	p.Quorum = 2
	var good []*worker
	for _, host := range []string{"a", "b", "c"} {
		w := newWorkerOn(t, host, s.url(), p)
		if !w.call(fusebox.Success) {
			t.Fatal("the first call was refused")
		}
		w.flush()
		good = append(good, w)
	}
	bad, neighbour := newWorkerOn(t, "broken", s.url(), p), newWorkerOn(t, "broken", s.url(), p)
	reached := 0
	for bad.call(fusebox.Failure) {
		reached++
		bad.flush()
		if reached > 100 {
			t.Fatal("the bad worker is never refused")
		}
	}
	if reached != 3 {
		t.Errorf("%d calls of the bad worker went out, want the threshold, 3", reached)
	}
	neighbour.becomes(fusebox.Open)
	for i, w := range good {
		for range 20 {
			if !w.call(fusebox.Success) {
				t.Fatalf("I17: good worker %d was refused: %+v", i, w.circuit.Status())
			}
		}
		w.flush()
	}
	report, err := fusebox.ReadReport(context.Background(), good[0].store, name)
	if err != nil {
		t.Fatal(err)
	}
	if hosts := report.Circuits[0].Hosts; len(hosts) != 1 || hosts[0].Host != "broken" || hosts[0].Phase != fusebox.Open {
		t.Errorf("hosts whose own circuits are open: %+v, want the broken one", hosts)
	}
	good[1].fail(1)
	for _, w := range good {
		w.becomes(fusebox.Open)
	}
	t.Logf("the bad worker's calls that went out: %d; of the good ones none of %d was refused", reached, 3*20)
}

// The bad worker heals: its host's probe closes its own circuit.
func TestI17TheBadWorkerComesBackByItself(t *testing.T) {
	s := startServer(t)
	p := policy()
	p.Quorum = 0 // the store's own: two
	good := newWorkerOn(t, "a", s.url(), p)
	good.call(fusebox.Success)
	good.flush()
	bad := newWorkerOn(t, "broken", s.url(), p)
	bad.fail(3)
	bad.becomes(fusebox.Open)
	took := bad.recovers()
	if v := bad.circuit.Status().Version; v != 0 {
		t.Errorf("the circuit itself moved %d times, want none", v)
	}
	t.Logf("back after %v, with a cooldown of %v", took, policy().Cooldown.After)
}
