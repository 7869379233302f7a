package main

import (
	"context"
	"errors"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
)

func (a *app) eventsCommand() *cobra.Command {
	var since string
	var follow bool
	c := &cobra.Command{
		Use:   "events [CIRCUIT…]",
		Short: "List transitions, holds, throttles and denials, in the order of time",
		Example: `  fusebox events --since 1h
  fusebox events model/paid/gpt-5 --follow --json`,
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			names, err := canonicalNames(args)
			if err != nil {
				return err
			}
			from, err := parseSince(since, time.Now())
			if err != nil {
				return err
			}
			store, err := a.openStore(c.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			r := &eventReader{store: store, since: from, only: names, read: map[string]mark{}}
			if !follow {
				return a.printUnseen(c.Context(), r)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.followEvents(ctx, r)
		},
	}
	c.Flags().StringVar(&since, "since", "24h", "how far back: a `DURATION` such as 90m, a time, or all")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return c
}

// parseSince reads --since; zero = everything.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "all" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, usagef("--since: want a duration such as 90m, a time such as 2026-11-30T07:00:00Z, or all; have %q", s)
	}
	return t, nil
}

// eventReader reads what is new in the logs of a store.
type eventReader struct {
	store     fusebox.Store
	since     time.Time
	only      []string        // circuits; none = all
	read      map[string]mark // how far, by circuit
	malformed int
}

// mark is how far a log was read. A number of records would not do: a log
// keeps only so many, and a store can lose its data.
type mark struct {
	newest    fusebox.Event // zero = there was none
	malformed int           // lines after it
}

// circuits lists those that are read.
func (r *eventReader) circuits(ctx context.Context) ([]string, error) {
	if len(r.only) > 0 {
		return r.only, nil
	}
	var names []string
	for name, err := range r.store.Circuits(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// unseen lists the circuits that were not read yet.
func (r *eventReader) unseen(ctx context.Context) ([]string, error) {
	names, err := r.circuits(ctx)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, seen := r.read[name]
		return seen
	}), err
}

// news returns the circuits' events that came since they were last read, in
// the order of their times. With an error come those that could be read.
func (r *eventReader) news(ctx context.Context, circuits ...string) ([]fusebox.Event, error) {
	var events []fusebox.Event
	var failed error
	for _, name := range circuits {
		more, err := r.newsOf(ctx, name)
		if err != nil {
			failed = err
			break
		}
		events = append(events, more...)
	}
	slices.SortStableFunc(events, func(x, y fusebox.Event) int { return x.At.Compare(y.At) })
	return events, failed
}

// newsOf returns what follows the newest record that was read. Where the log has
// that no more, all that it has is new.
func (r *eventReader) newsOf(ctx context.Context, circuit string) ([]fusebox.Event, error) {
	if len(r.only) > 0 && !slices.Contains(r.only, circuit) {
		return nil, nil
	}
	before, seen := r.read[circuit]
	if !seen { // from now on the store watches it
		if _, err := r.store.Apply(ctx, circuit, fusebox.Policy{}); err != nil {
			return nil, err
		}
	}
	var events []fusebox.Event
	now, malformed := mark{newest: before.newest}, 0
	for e, err := range r.store.Evidence(ctx, circuit, r.since) {
		if errors.Is(err, fusebox.ErrMalformed) {
			now.malformed++
			malformed++
			continue
		}
		if err != nil {
			return nil, err
		}
		e.Circuit, e.State, e.Seen = circuit, nil, time.Time{} // what the reader adds is not the record's
		now = mark{newest: e}
		if e.At.Equal(before.newest.At) && reflect.DeepEqual(e, before.newest) {
			events, malformed = nil, -before.malformed
		} else if isNews(&e) {
			events = append(events, e)
		}
	}
	r.read[circuit] = now
	r.malformed += malformed
	return events, nil
}

// isNews reports whether events lists a record.
func isNews(e *fusebox.Event) bool {
	switch e.Kind {
	case fusebox.KindEvidence:
		return e.Outcome == fusebox.Throttled
	case fusebox.KindTransition:
		return e.From != e.Phase // else the hold that caused it is listed
	case fusebox.KindDenied, fusebox.KindHold, fusebox.KindThrottle, fusebox.KindTrip, fusebox.KindReset:
		return true
	}
	return false
}

// printUnseen prints the news of the circuits that were not read yet.
func (a *app) printUnseen(ctx context.Context, r *eventReader) error {
	circuits, err := r.unseen(ctx)
	if err != nil {
		return err
	}
	events, err := r.news(ctx, circuits...)
	if err != nil {
		return err
	}
	return a.printNews(r, events)
}

func (a *app) printNews(r *eventReader, events []fusebox.Event) error {
	for i := range events {
		if err := a.printEvent(&events[i]); err != nil {
			return err
		}
	}
	if r.malformed > 0 {
		a.log.Warn("malformed lines skipped", "lines", r.malformed)
		r.malformed = 0
	}
	return nil
}

// newCircuitsEvery is how often following looks for circuits that are new, and
// whether a store that did not answer does.
const newCircuitsEvery = time.Second

// followEvents prints what is there, then what comes, until ctx ends.
func (a *app) followEvents(ctx context.Context, r *eventReader) error {
	if err := a.printUnseen(ctx, r); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	changed, watched := make(chan string), make(chan error, 1)
	go func() {
		watched <- r.store.Watch(ctx, func(circuit string, _ fusebox.State) {
			select {
			case changed <- circuit:
			case <-ctx.Done():
			}
		})
	}()
	err := a.follow(ctx, r, changed, watched)
	stopped := ctx.Err() != nil
	stop()
	if stopped {
		return nil // somebody has seen enough
	}
	return err
}

// follow goes on while the store does not answer, and then prints what was missed.
func (a *app) follow(ctx context.Context, r *eventReader, changed <-chan string, watched <-chan error) error {
	tick := time.NewTicker(newCircuitsEvery)
	defer tick.Stop()
	behind := false
	for {
		var circuits []string
		var err error
		all := false
		select {
		case <-ctx.Done():
			return nil
		case err := <-watched:
			return errors.Join(errors.New("the store is watched no more"), err)
		case circuit := <-changed:
			circuits = []string{circuit}
		case <-tick.C:
			if all = behind; all {
				circuits, err = r.circuits(ctx)
			} else {
				circuits, err = r.unseen(ctx)
			}
		}
		var events []fusebox.Event
		if err == nil {
			events, err = r.news(ctx, circuits...)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !behind {
			a.warnf("the store does not answer; what is missed is told once it does: %v", err)
		}
		behind = err != nil || behind && !all
		if err := a.printNews(r, events); err != nil {
			return err
		}
	}
}

func (a *app) printEvent(e *fusebox.Event) error {
	if a.json {
		return a.printJSON(e)
	}
	text := eventWords(e)
	c := plain
	switch {
	case e.Kind == fusebox.KindTransition && e.Phase == fusebox.Open:
		c = red
	case e.Kind == fusebox.KindTransition && e.Phase == fusebox.Closed:
		c = green
	case e.Kind == fusebox.KindDenied:
		c = faint
	}
	a.printf("%s  %s  %s", e.At.Local().Format("2006-01-02 15:04:05.000"), e.Circuit, a.paint(c, printable(text)))
	if e.Cause != "" {
		a.printf(": %s", printable(e.Cause))
	}
	if e.Until.After(e.At) { // a hold leaves no cooldown behind
		a.printf(", until %s", clock(e.Until))
	}
	if e.Worker != "" && e.Kind != fusebox.KindTransition {
		a.printf("  [%s]", printable(e.Worker))
	}
	a.printf("\n")
	return nil
}
