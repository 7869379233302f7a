package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Guard asks and reports for one circuit. It is safe for concurrent use.
type Guard struct {
	Store   fusebox.Store
	Circuit string         // canonical name
	Policy  fusebox.Policy // zero = the one stored with the circuit, or its kind's
	Worker  string         // who reports
	Observe bool           // decide and record, but refuse nothing

	// Patience bounds how long one question to the store may take; 0 = 5 s.
	Patience time.Duration
}

const defaultPatience = 5 * time.Second

// Ticket is the right to start one process. Report how it ended.
type Ticket struct {
	guard   *Guard
	id      string // of this start, in the records of its start and its end
	lease   string // "" = not a probe
	until   time.Time
	version uint64
	started time.Time
	policy  fusebox.Policy
	run     string
}

// Probe reports whether the process decides if the circuit closes.
func (t *Ticket) Probe() bool { return t.lease != "" }

// Policy returns the policy that the circuit is folded by.
func (t *Ticket) Policy() fusebox.Policy { return t.policy }

// Ask asks the circuit whether a process may be started, and records that it
// is. run names the agent run that it belongs to; "" = none; one that is stuck
// is refused whatever the circuit says. The error is a *[fusebox.Denial], or
// tells why the store could not be asked: then nothing is known against
// starting the process, see [Unasked].
func (g *Guard) Ask(ctx context.Context, run string) (*Ticket, error) {
	if err := g.going(ctx, run); err != nil {
		return nil, err
	}
	s, err := g.apply(ctx)
	if err != nil {
		return nil, err
	}
	t := &Ticket{guard: g, id: newToken(), run: run}
	d := s.Decide(s.Clock())
	if d.Probe {
		if s, err = t.probe(ctx, &s, false); err != nil {
			return nil, err
		}
		if d = s.Decide(s.Clock()); t.lease != "" {
			d.Go = true
		}
	}
	if !d.Go {
		if err := g.refused(ctx, &s, d); err != nil || !g.observes(&s) {
			return nil, err
		}
	}
	t.version, t.policy, t.started = s.Version, s.Policy, s.Clock()
	start := fusebox.Event{Kind: fusebox.KindStart, At: t.started, Worker: starter(g.Worker), Call: t.id, Run: run, Admitted: true, Version: t.version, Lease: t.lease}
	if _, err := g.apply(ctx, start); err != nil {
		return nil, err
	}
	return t, nil
}

// going refuses what belongs to a run that is stuck, whichever process it got
// stuck in.
func (g *Guard) going(ctx context.Context, run string) error {
	if run == "" {
		return nil
	}
	record := Guard{Store: g.Store, Circuit: fusebox.RunCircuit(run), Patience: g.Patience}
	s, err := record.apply(ctx)
	if err != nil {
		return err
	}
	d := s.Decide(s.Clock())
	if d.Go || d.Probe {
		return nil
	}
	refusal := fusebox.Event{Kind: fusebox.KindDenied, At: s.Clock(), Reason: fusebox.ReasonStuck, Run: run, Observed: g.Observe}
	if _, err := g.apply(ctx, refusal); err != nil || g.Observe {
		return err
	}
	return fusebox.NewDenial(fusebox.DenialInfo{Circuit: g.Circuit, Reason: fusebox.ReasonStuck, Run: run,
		Until: time.Now().Add(d.RetryAfter), LastError: s.Cause})
}

// Unasked returns a ticket for a process that is started although the store
// could not be asked: a guard that is out of order must not stop the work.
// Report tries to record its end all the same.
func (g *Guard) Unasked(run string) *Ticket {
	return &Ticket{guard: g, id: newToken(), run: run, started: time.Now().UTC(), policy: g.Policy}
}

// observes reports whether nothing is refused.
func (g *Guard) observes(s *fusebox.State) bool { return g.Observe || s.Policy.Observe }

// refused records a refusal and returns it.
func (g *Guard) refused(ctx context.Context, s *fusebox.State, d fusebox.Decision) error {
	denial := s.Denial(g.Circuit, s.Clock())
	e := fusebox.Event{Kind: fusebox.KindDenied, At: s.Clock(), Reason: denial.Reason(), Observed: g.observes(s)}
	_, err := g.apply(ctx, e)
	if g.observes(s) {
		return err
	}
	return denial
}

// probe asks the store for a probe's slot; t.lease says whether it was given.
func (t *Ticket) probe(ctx context.Context, s *fusebox.State, pick bool) (fusebox.State, error) {
	now := s.Clock()
	request := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionGranted, At: now, Lease: t.id, Pick: pick, Run: t.run}
	if length := s.Policy.Probe.Lease; length > 0 {
		request.Until = now.Add(length)
	}
	if !t.until.IsZero() {
		request.Until = t.until
	}
	after, err := t.guard.apply(ctx, request)
	if err == nil && after.HasLease(t.id) {
		t.lease, t.until = t.id, request.Until
	}
	return after, err
}

// KeepAlive renews a probe's lease until ctx ends: a session that runs for
// hours must not lose its slot to another. It returns at once for others.
func (t *Ticket) KeepAlive(ctx context.Context) {
	length := t.policy.Probe.Lease
	if t.lease == "" || length <= 0 {
		return
	}
	tick := time.NewTicker(length / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now().UTC()
		renewal := fusebox.Event{Kind: fusebox.KindLease, Action: fusebox.ActionRenewed, At: now, Lease: t.lease, Until: now.Add(length)}
		if s, err := t.guard.apply(ctx, renewal); err == nil && !s.HasLease(t.lease) {
			return // it lapsed, and another took over: this report will be void
		}
	}
}

// Report records how the process ended and returns the circuit's state after
// it. An error means that it is not known to be recorded.
func (t *Ticket) Report(ctx context.Context, r fusebox.Result, elapsed time.Duration) (fusebox.State, error) {
	e := fusebox.Event{
		At: time.Now().UTC(), Outcome: r.Outcome, Class: r.Class, Elapsed: elapsed, Error: fusebox.ErrorText(r.Err),
		Run: t.run, Call: t.id, Lease: t.lease, Admitted: true, Version: t.version,
	}
	if t.started.After(e.At) { // the store's clock is ahead
		e.At = t.started.Add(elapsed)
	}
	if r.Outcome == fusebox.Throttled {
		e.Until = r.NotBefore
	}
	if t.policy.IsZero() { // never asked: it has no permit either
		e.Admitted, e.Version = false, 0
	}
	return t.guard.apply(ctx, e)
}

// apply sends events to the store, or reads without any. It returns the state
// that decides for this worker.
func (g *Guard) apply(ctx context.Context, events ...fusebox.Event) (fusebox.State, error) {
	patience := g.Patience
	if patience == 0 {
		patience = defaultPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range events {
		events[i].Circuit = g.Circuit
		if events[i].Worker == "" {
			events[i].Worker = g.Worker
		}
	}
	state, err := g.Store.Apply(ctx, g.Circuit, g.Policy, events...)
	s := *state.For(g.Worker)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the store did not answer: %w", err)
	}
	return s, err
}

func newToken() string { return strconv.FormatUint(rand.Uint64()|1<<63, 36) }
