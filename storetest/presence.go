package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// announcer is a store that has a presence.
type announcer interface {
	fusebox.Store
	fusebox.Presence
}

func (b *bed) announcer() announcer {
	b.Helper()
	s, ok := b.open().(announcer)
	if !ok {
		b.Fatal("the store has no presence")
	}
	return s
}

func (b *bed) announce(s announcer, w fusebox.Worker, ttl time.Duration) {
	b.Helper()
	if err := s.Announce(b.Context(), w, ttl); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) workers(s announcer) []fusebox.Worker {
	b.Helper()
	there, err := s.Workers(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return there
}

// someone is a worker that uses a circuit by a policy.
func someone(id, name string) fusebox.Worker {
	p := policy()
	p.Loaded = ago(time.Hour)
	return fusebox.Worker{ID: id, Name: name, Version: "v1.2.3", Since: ago(2 * time.Hour), LocalSince: ago(time.Minute),
		Policies: []fusebox.WorkerPolicy{{Fingerprint: p.Fingerprint(), Policy: p, Circuits: []string{name + "/x", "tool/crm"}, Count: 7}}}
}

// workersAreThere announces through one and reads through another.
func workersAreThere(t *testing.T, b *bed) {
	one, two := b.announcer(), b.announcer()
	if there := b.workers(one); len(there) != 0 {
		t.Errorf("nobody has come, and %d are there", len(there))
	}
	web, other := someone("1", "web"), someone("../odd {id}\n", "api")
	twin := someone("2", "web") // in another container, say
	twin.Since = web.Since.Add(time.Second)
	web.Seen = ago(time.Hour) // is for the store to say
	b.announce(one, twin, time.Hour)
	b.announce(one, web, time.Hour)
	b.announce(two, other, time.Hour)
	now := b.apply(two, policy()).Now
	there := b.workers(two)
	if len(there) != 3 {
		t.Fatalf("%d are there, want 3: %+v", len(there), there)
	}
	for i, want := range []fusebox.Worker{other, web, twin} {
		got := there[i]
		if got.ID != want.ID || got.Name != want.Name || got.Version != want.Version || !got.Since.Equal(want.Since) ||
			!got.LocalSince.Equal(want.LocalSince) || !got.LocalUntil.IsZero() {
			t.Errorf("worker %d is %+v, want %+v", i, got, want)
		}
		if age := now.Sub(got.Seen); age.Abs() > time.Minute {
			t.Errorf("worker %d was seen %v before the store's now", i, age)
		}
		p, ok := got.PolicyOf("tool/crm")
		own := want.Policies[0].Policy
		if !ok || !p.Equal(own) || !p.Loaded.Equal(own.Loaded) || got.Policies[0].Count != 7 || got.Policies[0].Fingerprint != p.Fingerprint() {
			t.Errorf("worker %d has the policies %+v", i, got.Policies)
		}
		if _, ok := got.PolicyOf("tool/none"); ok {
			t.Errorf("worker %d has a policy for what it does not use", i)
		}
	}

	web.LocalUntil = ago(0)
	b.announce(one, web, time.Hour)
	b.announce(one, other, 0)
	b.announce(one, other, 0) // it is gone already
	there = b.workers(two)
	if len(there) != 2 || !there[0].LocalUntil.Equal(web.LocalUntil) || there[1].ID != twin.ID {
		t.Errorf("there are %+v, want web with its news, and its twin", there)
	}
	for circuit, err := range one.Circuits(t.Context()) {
		t.Errorf("announcing made the circuit %q, %v", circuit, err)
	}
}

// goneWorkers are those whose time is over: the others stay.
func goneWorkers(t *testing.T, b *bed) {
	s := b.announcer()
	b.announce(s, someone("1", "a"), time.Hour)
	b.announce(s, someone("2", "b"), 20*time.Millisecond)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); len(b.workers(s)) != 1; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %+v", b.workers(s))
		}
	}
	b.announce(s, someone("3", "c"), time.Hour)
	if there := b.workers(s); len(there) != 2 || there[0].Name != "a" || there[1].Name != "c" {
		t.Errorf("there are %+v, want a and c", there)
	}
}

func presenceOfNoUse(t *testing.T, b *bed) {
	s := b.announcer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Announce(ctx, someone("1", "a"), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("announcing in a context that ended: %v", err)
	}
	if there := b.workers(s); len(there) != 0 {
		t.Errorf("there are %+v", there)
	}
	s.Close()
	if err := s.Announce(t.Context(), someone("1", "a"), time.Hour); !errors.Is(err, fusebox.ErrClosed) {
		t.Errorf("announcing in a closed store: %v", err)
	}
	if _, err := s.Workers(t.Context()); !errors.Is(err, fusebox.ErrClosed) {
		t.Errorf("listing in a closed store: %v", err)
	}
}
