//go:build unix

package redisstore

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// reporter is a report of one failure that is about to be sent.
func reporter(t *testing.T, s *Store) *report {
	t.Helper()
	r, err := s.report(name, coolDown(time.Hour), []fusebox.Event{{At: time.Now().Add(-time.Second), Outcome: fusebox.Failure}})
	if err != nil {
		t.Fatal(err)
	}
	r.next()
	return r
}

// appendOrFail appends the report and says who has the lock.
func (r *report) appendOrFail(t *testing.T) appended {
	t.Helper()
	a, err := r.append(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *report) foldOrFail(t *testing.T, a appended) (done bool) {
	t.Helper()
	done, err := r.fold(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Who was paused while it held the lock commits nothing: somebody else has it.
func TestHolderThatLostTheLockCommitsNothing(t *testing.T) {
	s := startServer(t)
	store := openStore(t, s.url())
	paused, other := reporter(t, store), reporter(t, store)
	a := paused.appendOrFail(t)
	if !a.holder {
		t.Fatal("the first did not get the lock")
	}
	s.do("DEL", circuitKey("lock")) // its time is over
	b := other.appendOrFail(t)
	if !b.holder || len(b.batches) != 2 {
		t.Fatalf("the second got %+v", b)
	}
	if paused.foldOrFail(t, a) {
		t.Error("the first committed without the lock")
	}
	if !other.foldOrFail(t, b) {
		t.Error("the second could not commit")
	}
	if got := stored(t, s.url()).Votes; got != 2 {
		t.Errorf("%d votes, want 2", got)
	}
}

// A commit whose answer was lost is not done again: it would trim batches that
// came in since, and nobody would ever fold them.
func TestCommitThatIsRepeatedChangesNothing(t *testing.T) {
	s := startServer(t)
	store := openStore(t, s.url())
	first, second := reporter(t, store), reporter(t, store)
	a := first.appendOrFail(t)
	if !first.foldOrFail(t, a) {
		t.Fatal("the first could not commit")
	}
	s.do("SET", circuitKey("lock"), first.token)
	if second.appendOrFail(t).holder {
		t.Fatal("two have the lock")
	}
	if first.foldOrFail(t, a) {
		t.Error("it was committed again")
	}
	s.do("DEL", circuitKey("lock"))
	if err := second.send(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, s.url()).Votes; got != 2 {
		t.Errorf("%d votes, want 2", got)
	}
}

// A worker that dies between its report and the fold leaves it to the others'
// heartbeats, although they have nothing to report.
func TestReporterThatDiesIsFoldedByAHeartbeat(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Hour))
	w.fail(2)
	w.flush()
	dying := reporter(t, openStore(t, s.url()))
	if !dying.appendOrFail(t).holder {
		t.Fatal("it did not get the lock")
	}
	t.Logf("folded after %v", w.becomes(fusebox.Open))
}

// Everything expires but the state of a circuit that is not closed.
func TestKeysExpire(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Hour))
	left := func() int64 {
		ms, err := s.do("PTTL", circuitKey("state")).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	w.fail(1)
	w.flush()
	if left() <= 0 {
		t.Error("a closed circuit never expires")
	}
	w.fail(2)
	w.flush()
	if got := left(); got != -1 {
		t.Errorf("an open circuit expires in %d ms", got)
	}
	w.circuit.Reset("mended")
	w.flush()
	if left() <= 0 {
		t.Error("a circuit that closed never expires")
	}
	keys, err := s.do("KEYS", "*").AsStrSlice()
	if err != nil || len(keys) < 3 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	for _, key := range keys {
		if ms, err := s.do("PTTL", key).AsInt64(); err != nil || ms <= 0 {
			t.Errorf("%s never expires (%d, %v)", key, ms, err)
		}
	}
}

// A result of a version that is over is recorded as what it is.
func TestLateResultIsRecordedAsLate(t *testing.T) {
	s := startServer(t)
	w := newWorker(t, s.url(), coolDown(time.Hour))
	slow, err := w.allow()
	if err != nil {
		t.Fatal(err)
	}
	w.fail(3)
	w.flush()
	slow.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassTimeout})
	w.flush()
	var last fusebox.Event
	for e, err := range w.store.Evidence(t.Context(), name, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Class != fusebox.ClassTimeout || !last.Late {
		t.Errorf("recorded last: %+v", last)
	}
}
