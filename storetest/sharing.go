package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// testShares tests what a Sharer promises.
func (s *Subject) testShares(t *testing.T) {
	s.run(t, "shares are never more than there is", sharesAreBounded)
	s.run(t, "what somebody needs is told to the others", shortageIsTold)
	s.run(t, "a share that nobody claims again is given back", lapsedShare)
	s.run(t, "shares have names and owners of their own", sharesAreApart)
	if s.Processes {
		s.run(t, "shares over all processes", sharesOverProcesses)
	}
}

// thing is what most tests share.
const thing = "limit/crm"

// sharer opens the store, once more, as a Sharer.
func (b *bed) sharer() fusebox.Sharer {
	b.Helper()
	s, ok := b.open().(fusebox.Sharer)
	if !ok {
		b.Fatal("the store is no Sharer")
	}
	return s
}

func (b *bed) share(s fusebox.Sharer, name, owner string, limit, need, want int) fusebox.Share {
	b.Helper()
	got, err := s.Share(b.Context(), name, fusebox.Claim{Owner: owner, Limit: limit, Need: need, Want: want, For: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// sharesAreBounded has several owners claim at random, at the same time. What
// one gives back is counted as given back before it asks, what it gets as held
// after the answer: so a sum beyond the limit is the store's.
func sharesAreBounded(t *testing.T, b *bed) {
	const limit, owners, rounds = 20, 6, 60
	var mu sync.Mutex
	held, sum := [owners]int{}, 0
	set := func(owner, n int) {
		mu.Lock()
		defer mu.Unlock()
		sum += n - held[owner]
		if held[owner] = n; sum > limit {
			t.Errorf("%v are held of %d", held, limit)
		}
	}
	var wg sync.WaitGroup
	for owner := range owners {
		s := b.sharer()
		wg.Go(func() {
			for range rounds {
				need, want := rand.IntN(limit), rand.IntN(limit+10)
				mu.Lock()
				before := held[owner]
				mu.Unlock()
				set(owner, min(before, max(need, want)))
				got, err := s.Share(t.Context(), thing, fusebox.Claim{Owner: fmt.Sprint(owner), Limit: limit, Need: need, Want: want, For: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				if got.Held > max(need, want) {
					t.Errorf("got %d, asked for %d and %d", got.Held, need, want)
				}
				set(owner, got.Held)
			}
		})
	}
	wg.Wait()
}

func shortageIsTold(t *testing.T, b *bed) {
	s, other := b.sharer(), b.sharer()
	for i, step := range []struct {
		owner      string
		need, want int
		got        fusebox.Share
	}{
		{"a", 2, 10, fusebox.Share{Held: 10, Owners: 1}},
		{"b", 0, 5, fusebox.Share{Held: 0, Owners: 2}}, // it would like some, and needs none
		{"a", 2, 10, fusebox.Share{Held: 10, Owners: 2}},
		{"b", 3, 5, fusebox.Share{Held: 0, Owners: 2}},
		{"a", 2, 4, fusebox.Share{Held: 4, Owners: 2, Short: true}},
		{"b", 3, 5, fusebox.Share{Held: 5, Owners: 2}},
		{"a", 12, 0, fusebox.Share{Held: 5, Owners: 2}},
		{"b", 5, 0, fusebox.Share{Held: 5, Owners: 2, Short: true}},
		{"a", 0, 0, fusebox.Share{Held: 0, Owners: 1}},
		{"b", 99, 99, fusebox.Share{Held: 10, Owners: 1}},
		{"c", 0, 1, fusebox.Share{Held: 0, Owners: 2}}, // b has all there is: it is not short of what is not
	} {
		if i%2 == 1 {
			s, other = other, s
		}
		if got := b.share(s, thing, step.owner, 10, step.need, step.want); got != step.got {
			t.Fatalf("step %d: %s got %+v, want %+v", i, step.owner, got, step.got)
		}
	}
	if got := b.share(s, thing, "b", 3, 5, 0); got.Held != 3 {
		t.Errorf("of a smaller limit b got %+v", got)
	}
}

func lapsedShare(t *testing.T, b *bed) {
	s := b.sharer()
	if got, err := s.Share(t.Context(), thing, fusebox.Claim{Owner: "dead", Limit: 1, Need: 1, For: 50 * time.Millisecond}); err != nil || got.Held != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	end := time.Now().Add(10 * time.Second)
	for b.share(s, thing, "next", 1, 1, 1).Held == 0 {
		if time.Now().After(end) {
			t.Fatal("the share does not come back")
		}
	}
}

func sharesAreApart(t *testing.T, b *bed) {
	s := b.sharer()
	b.share(s, thing, "a", 1, 1, 1)
	if got := b.share(s, "limit/other", "b", 1, 1, 1); got.Held != 1 {
		t.Errorf("another thing: %+v", got)
	}
	if got := b.share(s, "Limit/CRM", "b", 1, 1, 1); got.Held != 0 {
		t.Errorf("the same thing in another spelling: %+v", got)
	}
	if _, err := s.Share(t.Context(), "no name", fusebox.Claim{Owner: "a", Limit: 1, For: time.Hour}); !errors.Is(err, fusebox.ErrName) {
		t.Errorf("a bad name: %v", err)
	}
	for _, c := range []fusebox.Claim{{Limit: 1, For: time.Hour}, {Owner: "a", Limit: 1}, {Owner: "a", Limit: 1, Need: -1, For: time.Hour}} {
		if _, err := s.Share(t.Context(), thing, c); err == nil {
			t.Errorf("taken: %+v", c)
		}
	}
	for name, err := range b.open().Circuits(t.Context()) {
		t.Errorf("a share is no circuit: %q, %v", name, err)
	}
	closed := b.open()
	closed.Close()
	if _, err := closed.(fusebox.Sharer).Share(t.Context(), thing, fusebox.Claim{Owner: "a", Limit: 1, For: time.Hour}); !errors.Is(err, fusebox.ErrClosed) {
		t.Errorf("after close: %v, want ErrClosed", err)
	}
}

func sharesOverProcesses(t *testing.T, b *bed) {
	marker := t.TempDir()
	var children []*process
	for i := range 4 {
		children = append(children, b.start(task{Do: "share", Worker: fmt.Sprint("w", i), Marker: marker, N: 15}))
	}
	for i, child := range children {
		if said, err := child.rest(); err != nil || len(said) != 15 {
			t.Errorf("worker %d: %d shares, %v", i, len(said), err)
		}
	}
}
