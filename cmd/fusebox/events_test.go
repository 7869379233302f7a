package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// forgetfulStore is a store whose log is what the test says, and which may be
// out of reach.
type forgetfulStore struct {
	fusebox.Store
	mu   sync.Mutex
	log  []fusebox.Event
	gone error
}

func (s *forgetfulStore) become(gone error, log ...fusebox.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.gone = log, gone
}

func (s *forgetfulStore) Circuits(context.Context) iter.Seq2[string, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.gone
	return func(yield func(string, error) bool) { yield("a/x", gone) }
}

func (s *forgetfulStore) Evidence(context.Context, string, time.Time) iter.Seq2[fusebox.Event, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, gone := s.log, s.gone
	return func(yield func(fusebox.Event, error) bool) {
		if gone != nil {
			yield(fusebox.Event{}, gone)
			return
		}
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// tripped is a record of an operator's, n seconds after the epoch.
func tripped(n int64) fusebox.Event {
	return fusebox.Event{Kind: fusebox.KindTrip, At: time.Unix(n, 0).UTC()}
}

// What had been told was told by the number of records: of a log that dropped
// its oldest, or of a store that had lost its data, nothing was news any more.
func TestNewsOfALogThatLostItsOldestRecords(t *testing.T) {
	store := &forgetfulStore{Store: fusebox.NewMemory()}
	r := &eventReader{store: store, read: map[string]mark{}}
	for _, step := range []struct {
		name string
		log  []int64
		want []int64
	}{
		{"all is new", []int64{1, 2, 3}, []int64{1, 2, 3}},
		{"nothing came", []int64{1, 2, 3}, nil},
		{"the oldest went as one came", []int64{2, 3, 4}, []int64{4}},
		{"the log is empty", nil, nil},
		{"and begins again", []int64{5}, []int64{5}},
		{"another came", []int64{5, 6}, []int64{6}},
	} {
		var log []fusebox.Event
		for _, at := range step.log {
			log = append(log, tripped(at))
		}
		store.become(nil, log...)
		events, err := r.news(t.Context(), "a/x")
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, e := range events {
			got = append(got, e.At.Unix())
		}
		if len(got) != len(step.want) || len(got) > 0 && (got[0] != step.want[0] || got[len(got)-1] != step.want[len(got)-1]) {
			t.Errorf("%s: told of %v, want %v", step.name, got, step.want)
		}
	}
}

// events --follow ended when the store was out of reach for a moment.
func TestFollowingOutlivesAnOutageOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout, stderr strings.Builder
		a := &app{stdout: &stdout, stderr: &stderr}
		store := &forgetfulStore{Store: fusebox.NewMemory(), log: []fusebox.Event{tripped(1)}}
		r := &eventReader{store: store, read: map[string]mark{}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.followEvents(ctx, r) }()
		synctest.Wait()
		store.become(errors.New("connection refused"))
		time.Sleep(5 * newCircuitsEvery)
		synctest.Wait()
		store.become(nil, tripped(1), tripped(2))
		time.Sleep(2 * newCircuitsEvery)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		if got := strings.Count(stdout.String(), "a/x  trip"); got != 2 {
			t.Errorf("told of %d events, want the one before the outage and the one within it:\n%s", got, &stdout)
		}
		if got := strings.Count(stderr.String(), "connection refused"); got != 1 {
			t.Errorf("said %d times that the store does not answer, want once:\n%s", got, &stderr)
		}
	})
}
