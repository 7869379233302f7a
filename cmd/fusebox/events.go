package main

import (
	"context"
	"errors"
	"os/signal"
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
			r := &eventReader{store: store, since: from, only: names, seen: map[string]int{}}
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
	only      []string       // circuits; none = all
	seen      map[string]int // records read so far, by circuit
	malformed int
}

// unseen lists the circuits that were not read yet.
func (r *eventReader) unseen(ctx context.Context) ([]string, error) {
	names := r.only
	if len(names) == 0 {
		for name, err := range r.store.Circuits(ctx) {
			if err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, seen := r.seen[name]
		return seen
	}), nil
}

// news returns the circuits' events that came since they were last read, in
// the order of their times.
func (r *eventReader) news(ctx context.Context, circuits ...string) ([]fusebox.Event, error) {
	var events []fusebox.Event
	for _, name := range circuits {
		more, err := r.newsOf(ctx, name)
		if err != nil {
			return nil, err
		}
		events = append(events, more...)
	}
	slices.SortStableFunc(events, func(x, y fusebox.Event) int { return x.At.Compare(y.At) })
	return events, nil
}

func (r *eventReader) newsOf(ctx context.Context, circuit string) ([]fusebox.Event, error) {
	if len(r.only) > 0 && !slices.Contains(r.only, circuit) {
		return nil, nil
	}
	if _, seen := r.seen[circuit]; !seen { // from now on the store watches it
		if _, err := r.store.Apply(ctx, circuit, fusebox.Policy{}); err != nil {
			return nil, err
		}
	}
	var events []fusebox.Event
	read := 0
	for e, err := range r.store.Evidence(ctx, circuit, r.since) {
		read++
		isNew := read > r.seen[circuit]
		switch {
		case errors.Is(err, fusebox.ErrMalformed):
			if isNew {
				r.malformed++
			}
		case err != nil:
			return nil, err
		case isNew && isNews(&e):
			e.Circuit, e.State = circuit, nil
			events = append(events, e)
		}
	}
	r.seen[circuit] = max(read, r.seen[circuit])
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

// printNews prints what is new in the named circuits' logs.
func (a *app) printNews(ctx context.Context, r *eventReader, circuits ...string) error {
	events, err := r.news(ctx, circuits...)
	if err != nil {
		return err
	}
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

// printUnseen prints the news of the circuits that were not read yet.
func (a *app) printUnseen(ctx context.Context, r *eventReader) error {
	circuits, err := r.unseen(ctx)
	if err != nil {
		return err
	}
	return a.printNews(ctx, r, circuits...)
}

// newCircuitsEvery is how often following looks for circuits that are new.
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

func (a *app) follow(ctx context.Context, r *eventReader, changed <-chan string, watched <-chan error) error {
	tick := time.NewTicker(newCircuitsEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err := <-watched:
			return errors.Join(errors.New("the store is watched no more"), err)
		case circuit := <-changed:
			err = a.printNews(ctx, r, circuit)
		case <-tick.C:
			err = a.printUnseen(ctx, r)
		}
		if err != nil {
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
