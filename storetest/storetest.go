// Package storetest is the suite that every fusebox.Store passes:
//
//	func TestMain(m *testing.M) {
//		storetest.Worker(open) // this binary is also the suite's worker process
//		os.Exit(m.Run())
//	}
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Subject{New: newDirectory, Open: open, Processes: true})
//	}
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Subject is a kind of store under test.
type Subject struct {
	// New prepares an empty store and returns its address, such as a directory.
	New func(t *testing.T) (address string)

	// Open opens the store at an address. What is opened twice shares circuits.
	Open func(address string) (fusebox.Store, error)

	// Processes says that other processes can open the address: the test's
	// TestMain calls Worker.
	Processes bool

	// Shares says that the store is a fusebox.Sharer too.
	Shares bool

	// Verify, where not nil, looks at what a test has left at an address: that
	// folding the records again gives the recorded states, say.
	Verify func(t *testing.T, address string)
}

// need is what a test needs of its subject, besides that it is a store.
type need int

const (
	nothing need = iota
	processes
	presence // it is a fusebox.Presence too
)

// Run tests the subject, each property in a subtest of its own.
func Run(t *testing.T, s Subject) {
	first, err := s.Open(s.New(t))
	if err != nil {
		t.Fatal(err)
	}
	_, present := first.(fusebox.Presence)
	first.Close()
	for _, test := range []struct {
		name  string
		run   func(*testing.T, *bed)
		needs need
	}{
		{"folds as Fold does", foldsAsFoldDoes, nothing},
		{"reading an unknown circuit", readsUnknown, nothing},
		{"I12 unknown is usable", unknownIsUsable, nothing},
		{"canonical names", canonicalNames, nothing},
		{"lists circuits in order", listsCircuits, nothing},
		{"evidence reads back", evidenceReadsBack, nothing},
		{"transitions are recorded", transitionsAreRecorded, nothing},
		{"the policy loaded later wins", laterPolicyWins, nothing},
		{"of two policies as old the one given last wins", givenLastWins, nothing},
		{"a zero policy is the stored one", zeroPolicyIsTheStoredOne, nothing},
		{"throttles", throttles, nothing},
		{"I14 holds", holds, nothing},
		{"reset", resets, nothing},
		{"I10 the future does not count", futureDoesNotCount, nothing},
		{"checkpoints", checkpoints, nothing},
		{"I2 late results do not vote", lateResultsDoNotVote, nothing},
		{"I3 one probe at a time", oneProbeAtATime, nothing},
		{"I4 a lapsed lease is taken over", lapsedLease, nothing},
		{"I5 a canceled probe gives its slot back", canceledProbe, nothing},
		{"concurrent writers lose nothing", concurrentWriters, nothing},
		{"watch tells what others changed", watchTells, nothing},
		{"a context that ended", endedContext, nothing},
		{"closed", closedStore, nothing},
		{"killed processes lose nothing acknowledged", killedProcesses, processes},
		{"I3 one probe over all processes", oneProbeOverProcesses, processes},
		{"I4 a killed prober is taken over", killedProber, processes},
		{"interleaved sessions", interleavedSessions, processes},
		{"workers that are there", workersAreThere, presence},
		{"workers whose time is over", goneWorkers, presence},
		{"presence in a closed store, or a context that ended", presenceOfNoUse, presence},
	} {
		if test.needs == processes && !s.Processes || test.needs == presence && !present {
			continue
		}
		s.run(t, test.name, test.run)
	}
	if s.Shares {
		s.testShares(t)
	}
}

// run runs one test on an empty store.
func (s *Subject) run(t *testing.T, name string, test func(*testing.T, *bed)) {
	t.Run(name, func(t *testing.T) {
		b := &bed{T: t, subject: *s, address: s.New(t)}
		test(t, b)
		if s.Verify != nil && !t.Failed() {
			s.Verify(t, b.address)
		}
	})
}

// name is the circuit that most tests use.
const name = "tool/crm/lookup"

// bed is where one test lies: an empty store at an address.
type bed struct {
	*testing.T
	subject Subject
	address string
}

// open opens the store, once more.
func (b *bed) open() fusebox.Store {
	b.Helper()
	s, err := b.subject.Open(b.address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// apply applies events by a policy.
func (b *bed) apply(s fusebox.Store, p fusebox.Policy, events ...fusebox.Event) fusebox.State {
	b.Helper()
	return b.applyTo(s, name, p, events...)
}

func (b *bed) applyTo(s fusebox.Store, circuit string, p fusebox.Policy, events ...fusebox.Event) fusebox.State {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	state, err := s.Apply(ctx, circuit, p, events...)
	if err != nil {
		b.Fatal(err)
	}
	if state.Now.IsZero() {
		b.Fatal("the state does not say what the store's clock is")
	}
	return state
}

// log reads all records of the circuit.
func (b *bed) log(s fusebox.Store, circuit string) []fusebox.Event {
	b.Helper()
	var events []fusebox.Event
	for e, err := range s.Evidence(b.Context(), circuit, time.Time{}) {
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// policy trips at three failures in a row and cools down for a minute.
func policy() fusebox.Policy {
	return fusebox.Policy{
		Trip:     []fusebox.Trip{fusebox.Streak(3)},
		OnClass:  []fusebox.Class{fusebox.ClassAuth},
		Cooldown: fusebox.Cooldown{After: time.Minute},
		Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1, Attempts: 1, Lease: time.Minute},
		Quorum:   1,
	}
}

// ago is a time in the past, as an event has it.
func ago(d time.Duration) time.Time { return time.Now().Round(0).UTC().Add(-d) }

func failure(at time.Time) fusebox.Event {
	return fusebox.Event{At: at, Outcome: fusebox.Failure, Class: fusebox.ClassServer, Error: "it broke"}
}

func success(at time.Time) fusebox.Event {
	return fusebox.Event{At: at, Outcome: fusebox.Success, Elapsed: 20 * time.Millisecond}
}

// lease asks for a probe's slot.
func lease(token string, at, until time.Time) fusebox.Event {
	return fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: at, Until: until, Lease: token}
}

// verdict is what the probe with that lease reports.
func verdict(e fusebox.Event, token string, version uint64) fusebox.Event {
	e.Lease, e.Admitted, e.Version = token, true, version
	return e
}
