package fusebox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"
)

// RunOutcome is how a run went.
type RunOutcome string

const (
	RunComplete RunOutcome = "complete" // everything that it asked for, it got
	RunDegraded RunOutcome = "degraded" // something was denied, or failed and was given up
	RunFailed   RunOutcome = "failed"   // it was stopped
)

// Run is one agent run or job, the scope of thrash detection: what failed in
// one run says nothing of another. Get one from [Box.Run]. Its methods are safe
// for concurrent use.
type Run struct {
	box  *Box
	id   string
	name string // of the circuit that records it

	mu         sync.Mutex
	circuit    *Circuit // nil until needed
	version    uint64   // of circuit, when history began
	history    *history
	denied     int
	since      time.Time // of the newest change
	struggling bool
	stopped    bool // it was stuck at some time
	ended      bool
}

// maxRuns bounds the runs that are remembered: those asked for last.
const maxRuns = 4096

// runs holds the runs of a Box.
type runs struct {
	thrash Thrash
	retry  Retry
	signer *signer

	mu   sync.Mutex
	byID *lru[string, *Run]
}

func newRuns(b *Box, thrash Thrash, retry Retry) (*runs, error) {
	if err := thrash.Validate(); err != nil {
		return nil, err
	}
	if err := retry.Validate(); err != nil {
		return nil, err
	}
	rs := &runs{thrash: thrash.orDefault(), retry: retry.orDefault(), byID: newLRU[string, *Run](maxRuns)}
	rs.signer = newSigner(SignatureOptions{Ignore: rs.thrash.Ignore})
	return rs, nil
}

// RunPolicy returns the policy of the circuits that record runs, see
// [RunCircuit]: no evidence opens them, and one that is opened refuses for as
// long as a run is stuck.
func (h Thrash) RunPolicy() Policy {
	return Policy{Cooldown: Cooldown{After: h.orDefault().Forget}, Probe: Probe{Concurrent: 1, CloseAfter: 1, Attempts: 1}}
}

// RunCircuit returns the name of the circuit that a stuck run is recorded as.
// Ids come from callers: one that would be no legal name stands for itself as
// a hash.
func RunCircuit(id string) string {
	name, err := CanonicalName(runPrefix + strings.TrimSpace(id))
	if err != nil || len(name) <= len(runPrefix) {
		sum := sha256.Sum256([]byte(id))
		return runPrefix + "~" + hex.EncodeToString(sum[:10])
	}
	return name
}

// Run returns the run of that id, beginning it if it is not known. The scope
// of an id is the caller's to choose: one conversation, one job, one message of
// a queue. Ids are compared as circuit names are; an empty one stands for a new
// run that only the caller knows. The 4096 runs asked for last are remembered.
func (b *Box) Run(id string) *Run {
	if id == "" {
		id = newToken()
	}
	name := RunCircuit(id)
	rs := b.runs
	rs.mu.Lock()
	known, ok := rs.byID.peek(name)
	rs.mu.Unlock()
	if !ok {
		known = b.newRun(name)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID.use(name, func() *Run { return known })
}

func (b *Box) newRun(name string) *Run {
	r := &Run{box: b, name: name, id: name[len(runPrefix):], since: b.now(), history: newHistory(&b.runs.thrash)}
	if b.sync != nil { // another process may have stopped it
		r.record()
	}
	return r
}

// ID returns the run's id as evidence shows it.
func (r *Run) ID() string { return r.id }

// recorded returns the circuit that records the run, nil while there is none.
func (r *Run) recorded() *Circuit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.circuit
}

// record returns the circuit that records the run, making it if need be, or
// nil where there is no room for one. The caller holds no lock.
func (r *Run) record() *Circuit {
	if c := r.recorded(); c != nil {
		return c
	}
	c, err := r.box.Circuit(r.name)
	if err != nil {
		r.box.cfg.Logger.Warn("a run is not recorded", "run", r.id, "error", err)
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.circuit == nil {
		r.circuit, r.version = c, c.version()
	}
	return r.circuit
}

// Check asks whether the run may go on at all, which [Call] and [Run.Allow] do
// by themselves: it is for fronts that know a call's run before its circuit. The
// error is the *[Denial] of a stuck run, or ctx's error.
func (r *Run) Check(ctx context.Context) error {
	c := r.record()
	if c == nil {
		return nil // what cannot be looked up stops nobody
	}
	return r.going(ctx, r.box.now(), true, c)
}

// Note takes in how a call of c went that [Run.Allow] was not asked for. A
// success ends the row of refusals that the run has ignored; after a failure
// something is given up, until c works again. Whether the run repeats itself
// only Allow can see.
func (r *Run) Note(c *Circuit, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o {
	case Success:
		r.history.worked(c.name, "")
		r.struggling = false
	case Rejected, Failure:
		r.history.tool(c.name).works = false
	}
}

// going asks whether the run may go on at all. The error is a denial.
func (r *Run) going(ctx context.Context, t time.Time, live bool, asked *Circuit) error {
	c := r.recorded()
	if c == nil {
		return nil
	}
	p, err := c.allowAs(ctx, t, live)
	if d := AsDenial(err); d != nil {
		r.mu.Lock()
		r.denied++
		r.mu.Unlock()
		if asked != c {
			asked.enter(t, live, Event{Kind: KindDenied, At: t, Reason: ReasonStuck, Run: r.id})
		}
		refusal := *d
		refusal.circuit, refusal.reason, refusal.run, refusal.texts = asked.name, ReasonStuck, r.id, r.box.runs.thrash.Texts
		return &refusal
	}
	if err != nil {
		return err
	}
	if p.Probe() { // it was stuck for long enough
		p.doneAs(t, live, Result{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := c.version(); v != r.version { // let go again, here or elsewhere
		r.version = v
		r.forget()
	}
	return nil
}

// forget begins a new history. The caller holds the lock.
func (r *Run) forget() {
	r.history = newHistory(&r.box.runs.thrash)
	r.struggling = false
}

// stop makes the run stuck. The caller holds no lock.
func (r *Run) stop(t time.Time, live bool, why string) {
	r.mu.Lock()
	r.stopped, r.since = true, t
	r.mu.Unlock()
	c := r.record()
	if c == nil {
		return
	}
	c.enter(t, live, Event{Kind: KindTrip, At: t, Run: r.id, Cause: why})
	r.mu.Lock()
	r.version = c.version()
	r.mu.Unlock()
	r.box.notify(Notice{At: t, Kind: NoticeStuck, Run: r.id, Text: why})
}

// Stuck reports whether every call of the run is refused.
func (r *Run) Stuck() bool {
	c := r.recorded()
	if c == nil {
		return false
	}
	s := c.State()
	return s.stuckAt(r.box.now())
}

// Outcome tells how the run has gone so far.
func (r *Run) Outcome() RunOutcome {
	stuck := r.Stuck()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome(stuck)
}

func (r *Run) outcome(stuck bool) RunOutcome {
	switch {
	case stuck:
		return RunFailed
	case r.denied > 0 || r.stopped || r.history.givenUp():
		return RunDegraded
	}
	return RunComplete
}

// Status returns what is known of the run now. It has no effects.
func (r *Run) Status() RunStatus {
	stuck := r.Stuck()
	r.mu.Lock()
	defer r.mu.Unlock()
	return RunStatus{Run: r.id, Stuck: stuck, Struggling: r.struggling, Denied: r.denied,
		Outcome: r.outcome(stuck), Since: r.since}
}

// Reset lets a stuck run go on and clears what it counted. reason is recorded.
func (r *Run) Reset(reason string) {
	r.mu.Lock()
	r.forget()
	c := r.circuit
	r.mu.Unlock()
	if c == nil {
		return
	}
	c.Reset(reason)
	r.mu.Lock()
	r.version = c.version()
	r.mu.Unlock()
}

// End tells how the run went, sends [NoticeEnded], and lets the box forget the
// run: the same id begins a new one, unless it is stuck. Only the first End of
// a run sends the notice.
func (r *Run) End() RunOutcome {
	outcome := r.Outcome()
	r.mu.Lock()
	first := !r.ended
	r.ended = true
	r.mu.Unlock()
	rs := r.box.runs
	rs.mu.Lock()
	if known, ok := rs.byID.peek(r.name); ok && known == r && outcome != RunFailed {
		rs.byID.drop(r.name)
	}
	rs.mu.Unlock()
	if first {
		r.box.notify(Notice{At: r.box.now(), Kind: NoticeEnded, Run: r.id, Outcome: outcome})
	}
	return outcome
}

// Runs returns the status of every run that this process remembers, the one
// asked for last first. It has no effects.
func (b *Box) Runs() []RunStatus {
	var list []*Run
	b.runs.mu.Lock()
	b.runs.byID.each(func(_ string, r *Run) bool {
		list = append(list, r)
		return true
	})
	b.runs.mu.Unlock()
	status := make([]RunStatus, len(list))
	for i, r := range list {
		status[i] = r.Status()
	}
	return status
}

// ResetRun lets the run of that id go on, whichever process it runs in. reason
// is recorded.
func (b *Box) ResetRun(id, reason string) error {
	name := RunCircuit(id)
	b.runs.mu.Lock()
	r, ok := b.runs.byID.peek(name)
	b.runs.mu.Unlock()
	if ok {
		r.Reset(reason)
		return nil
	}
	c, err := b.Circuit(name)
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	c.Reset(reason)
	return nil
}
