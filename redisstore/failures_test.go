//go:build unix

package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// The rows of the failure table in docs/fleet.md. Each logs what it measured;
// none of them depends on it.

func TestFleetSharesOneCircuit(t *testing.T) {
	s := startServer(t)
	fleet := newFleet(t, 5, s.url(), coolDown(time.Hour))
	for _, w := range fleet[:3] {
		w.fail(1)
	}
	for i, w := range fleet {
		t.Logf("worker %d stops after %v", i, w.becomes(fusebox.Open))
	}
	fleet[0].flush()
	counts := logged(t, s.url())
	if counts[fusebox.KindEvidence] != 3 || counts[fusebox.KindTransition] != 1 || counts[fusebox.KindCheckpoint] != 0 {
		t.Errorf("records by kind: %v, want 3 results and a transition", counts)
	}
}

// A store that answers slowly delays no call.
func TestSlowServer(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.host())
	w := newWorker(t, p.url(), policy())
	p.slow(200 * time.Millisecond)
	w.fail(3)
	w.becomes(fusebox.Open)
	took := w.recovers()
	t.Logf("recovered after %v, with a cooldown of %v", took, policy().Cooldown.After)
}

// Workers whose answers took longer than a lock lasted got nothing folded: the
// lock was over before a commit came.
func TestServerFarAway(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.host())
	fleet := newFleet(t, 2, p.url(), coolDown(time.Hour))
	const far = 3 * lockTime / 2
	p.slow(far)
	fleet[0].fail(3)
	t.Logf("the other heard after %v, where answers take %v", fleet[1].becomes(fusebox.Open), far)
}

// A server that is stopped and goes on later: workers go on locally, and what
// they reported meanwhile counts once.
func TestStoppedServer(t *testing.T) {
	s := startServer(t)
	fleet := newFleet(t, 2, s.url(), coolDown(time.Hour))
	fleet[0].fail(1)
	fleet[0].flush()
	s.stop()
	fleet[0].fail(1)
	eventually(t, "the worker notices", func() bool { return fleet[0].circuit.Status().Local })
	fleet[0].fail(1) // by itself: 1 was shared, 2 are its own
	fleet[0].becomes(fusebox.Open)
	if fleet[1].phase() != fusebox.Closed {
		t.Error("the other worker knows of what it cannot have been told")
	}
	s.wake()
	took := fleet[1].becomes(fusebox.Open)
	eventually(t, "it joins again", func() bool { return !fleet[0].circuit.Status().Local })
	t.Logf("the other worker heard %v after the server went on", took)
	if got := logged(t, s.url())[fusebox.KindEvidence]; got != 3 {
		t.Errorf("%d results are recorded, want 3", got)
	}
}

// A server that lost everything gets it back from those who know, although
// nobody calls.
func TestKilledServerIsHealed(t *testing.T) {
	s := startServer(t)
	fleet := newFleet(t, 3, s.url(), coolDown(time.Hour))
	fleet[0].fail(3)
	for _, w := range fleet {
		w.becomes(fusebox.Open)
	}
	before := stored(t, s.url())
	s.kill()
	s.start()
	begin := time.Now()
	var after fusebox.State
	eventually(t, "the server knows again", func() bool { after = stored(t, s.url()); return after.Phase == fusebox.Open })
	t.Logf("healed %v after the restart", time.Since(begin))
	if after.Version != before.Version || after.Until.Sub(before.Until).Abs() > time.Second {
		t.Errorf("version %d until %v, want version %d until %v", after.Version, after.Until, before.Version, before.Until)
	}
	for _, w := range fleet {
		if w.phase() != fusebox.Open {
			t.Errorf("a worker is %v", w.phase())
		}
	}
}

// What is counted while the server is away is reported when it is back, to a
// server that has never heard of the circuit.
func TestKilledServerHearsWhatHappenedMeanwhile(t *testing.T) {
	s := startServer(t)
	fleet := newFleet(t, 2, s.url(), coolDown(time.Hour))
	fleet[0].fail(1)
	fleet[0].flush()
	s.kill()
	fleet[0].fail(2)
	fleet[0].becomes(fusebox.Open)
	s.start()
	t.Logf("the other worker heard %v after the restart", fleet[1].becomes(fusebox.Open))
}

// A server that is down from the start keeps nobody from working.
func TestServerThatIsNotThere(t *testing.T) {
	s := startServer(t)
	s.kill()
	w := newWorker(t, s.url(), coolDown(time.Hour))
	if !w.circuit.Status().Local {
		t.Error("it does not say that it is alone")
	}
	w.fail(3)
	w.becomes(fusebox.Open)
	s.start()
	eventually(t, "the server knows", func() bool { return stored(t, s.url()).Phase == fusebox.Open })
}

func TestScriptsFlushed(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Hour))
	for range 3 {
		if err := s.do("SCRIPT", "FLUSH").Error(); err != nil {
			t.Fatal(err)
		}
		w.fail(1)
		w.flush()
	}
	if w.circuit.Status().Local || stored(t, s.url()).Phase != fusebox.Open {
		t.Errorf("worker %+v, server %v", w.circuit.Status(), stored(t, s.url()).Phase)
	}
}

// An answer that is lost doubles nothing, whoever sends the report again.
func TestLostAnswers(t *testing.T) {
	s := startServer(t)
	p := startProxy(t, s.host())
	many := policy()
	many.Trip = []fusebox.Trip{fusebox.Count(1000, time.Hour)}

	t.Run("of one report", func(t *testing.T) {
		p.breakAfter(2000) // some reports' worth
		defer p.mend()
		store := openStore(t, p.url())
		for range 30 {
			if _, err := store.Apply(t.Context(), "tool/a", many, fusebox.Event{At: time.Now(), Outcome: fusebox.Failure}); err != nil {
				t.Fatal(err)
			}
		}
		state, err := store.Apply(t.Context(), "tool/a", fusebox.Policy{})
		if err != nil || state.Votes != 30 {
			t.Errorf("%d votes, %v, want 30", state.Votes, err)
		}
		if n := s.connections(); n < 5 {
			t.Errorf("%d connections in all: hardly any answer was lost", n)
		}
	})
	t.Run("for as long as a worker has patience, and longer", func(t *testing.T) {
		w := newWorker(t, p.url(), many)
		w.fail(1)
		w.flush()
		p.breakAfter(0)
		w.fail(5)
		eventually(t, "the worker notices", func() bool { return w.circuit.Status().Local })
		w.fail(5)
		p.mend()
		eventually(t, "it joins again", func() bool { return !w.circuit.Status().Local })
		w.flush()
		if got := stored(t, s.url()).Votes; got != 11 {
			t.Errorf("%d votes, want 11", got)
		}
	})
}

// Messages that do not arrive cost a heartbeat. This worker's user may not
// subscribe at all.
func TestLostMessages(t *testing.T) {
	s := startServer(t)
	if err := s.do("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels").Error(); err != nil {
		t.Fatal(err)
	}
	deaf := newWorker(t, strings.Replace(s.url(), "//", "//deaf:secret@", 1), coolDown(time.Hour))
	other := newWorker(t, s.url(), coolDown(time.Hour))
	other.fail(3)
	other.becomes(fusebox.Open)
	t.Logf("heard after %v, with a heartbeat of 100ms", deaf.becomes(fusebox.Open))
}

// The server's clock is an hour off: its deadlines become times to wait.
func TestServerClockWrong(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			s := startServer(t)
			fleet := newFleet(t, 3, s.url(), policy())
			for _, w := range fleet {
				w.store.skew.Store(int64(off))
				w.circuit.Throttle(time.Time{}, "anything, to hear the clock")
				w.flush()
			}
			for _, w := range fleet {
				w.fail(1)
			}
			fleet[0].becomes(fusebox.Open)
			t.Logf("recovered after %v, with a cooldown of %v", fleet[0].recovers(), policy().Cooldown.After)
		})
	}
}

// The server's clock is set by an hour while a circuit is open: it is neither
// pinned open, nor is anybody refused for longer than a cooldown.
func TestServerClockSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			s := startServer(t)
			fleet := newFleet(t, 2, s.url(), policy())
			fleet[0].fail(3)
			fleet[0].flush()
			for _, w := range fleet {
				w.becomes(fusebox.Open)
			}
			for _, w := range fleet {
				w.store.skew.Store(int64(by))
			}
			t.Logf("recovered after %v, with a cooldown of %v", fleet[1].recovers(), policy().Cooldown.After)
			t.Logf("the other heard %v later", fleet[0].becomes(fusebox.Closed))
		})
	}
}

// Half of the fleet is cut off: it decides for itself, and later all agree. What
// it reported counts once, whether it had arrived or not.
func TestHalfCutOff(t *testing.T) {
	for what, cut := range map[string]func(*proxy){
		"nothing passes":         func(p *proxy) { p.cutRequests(); p.cutAnswers() },
		"requests do not arrive": (*proxy).cutRequests,
		"answers do not arrive":  (*proxy).cutAnswers,
	} {
		t.Run(what, func(t *testing.T) {
			s := startServer(t)
			p := startProxy(t, s.host())
			here, there := newFleet(t, 2, s.url(), coolDown(time.Hour)), newFleet(t, 2, p.url(), coolDown(time.Hour))
			cut(p)
			there[0].fail(3)
			there[0].becomes(fusebox.Open)
			if there[1].phase() != fusebox.Closed {
				t.Error("a message got through")
			}
			eventually(t, "it notices", func() bool { return there[0].circuit.Status().Local })
			results := 3
			if here[0].call(fusebox.Failure) { // unless the others' reports have arrived, and their answers not
				results++
			}
			begin := time.Now()
			p.mend()
			t.Logf("those that were cut off heard %v later", there[1].becomes(fusebox.Open))
			for _, w := range append(here, there...) {
				w.becomes(fusebox.Open)
				eventually(t, "it joins again", func() bool { return !w.circuit.Status().Local })
			}
			t.Logf("all had joined again after %v", time.Since(begin))
			for _, w := range append(here, there...) {
				w.flush()
			}
			if got := logged(t, s.url())[fusebox.KindEvidence]; got != results {
				t.Errorf("%d results are recorded, want %d", got, results)
			}
		})
	}
}

// Over the whole fleet one probe is under way at a time.
func TestOneProbeOverTheFleet(t *testing.T) {
	s := startServer(t)
	fleet := newFleet(t, 8, s.url(), coolDown(50*time.Millisecond))
	fleet[0].fail(3)
	probes := 0
	for probes < 5 {
		var permit fusebox.Permit
		eventually(t, "a probe is granted", func() bool {
			for _, w := range fleet {
				if p, err := w.allow(); err == nil && p.Probe() {
					permit = p
					return true
				}
			}
			return false
		})
		probes++
		for range 3 {
			for i, w := range fleet {
				if p, err := w.allow(); err == nil {
					t.Fatalf("worker %d calls beside the probe (%v)", i, p.Probe())
				}
			}
		}
		permit.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer})
	}
	t.Logf("%d probes, one at a time", probes)
}

// A worker that was alone for long has much to report: that must not take longer
// than a lock lasts, or nobody would ever get it folded.
func TestLongReport(t *testing.T) {
	const events, workers = 10_000, 3
	s := startServer(t)
	many := policy()
	many.Trip = []fusebox.Trip{fusebox.Count(100, time.Hour).Of(1000)}
	many.Cooldown = fusebox.Cooldown{}
	var all sync.WaitGroup
	begin := time.Now()
	for i := range workers {
		store := openStore(t, s.url())
		all.Go(func() {
			var report []fusebox.Event
			for n := range uint64(events) {
				report = append(report, fusebox.Event{At: begin, Outcome: fusebox.Success, ID: fusebox.EventID{From: fmt.Sprint(i), N: n + 1}})
			}
			for { // as a box does: what was sent is skipped, so each time it gets further
				_, err := store.Apply(t.Context(), name, many, report...)
				if err == nil {
					return
				}
				if time.Since(begin) > time.Minute {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d reports of %d events took %v", workers, events, time.Since(begin))
	if got := stored(t, s.url()).Votes; got != workers*events {
		t.Errorf("%d votes, want %d", got, workers*events)
	}
}

// A state that somebody spoilt stops no call, and is said.
func TestSpoiltState(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Hour))
	w.fail(1)
	w.flush()
	if err := s.do("HSET", circuitKey("state"), "state", "{").Error(); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t, s.url()).Apply(t.Context(), name, fusebox.Policy{}); !errors.Is(err, errState) {
		t.Errorf("have %v", err)
	}
	w.fail(2)
	w.becomes(fusebox.Open)
	if err := s.do("DEL", circuitKey("state")).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker gives back what it knows", func() bool { return stored(t, s.url()).Phase == fusebox.Open })
}
