package gateway

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
)

// ActiveCheck has a backend asked something free now and then, whatever its
// traffic. The answers are the evidence of a circuit of their own,
// check/BACKEND: that the backend can be reached says nothing of whether its
// models work, and erases none of their failures. While it is open, because the
// backend cannot be reached, the backend is passed over. See [Gateway.Run].
type ActiveCheck struct {
	Every   time.Duration // 0 = the backend is not checked
	Path    string        // that a GET is sent to, after the backend's URL, as "/models"; "" = that
	Timeout time.Duration // 0 = 5 s

	// Probe has a check, in place of a call, decide whether the circuit of a
	// model or of the backend's credential closes.
	Probe bool
}

// Built in for what an ActiveCheck leaves out.
const (
	defaultCheckPath    = "/models"
	defaultCheckTimeout = 5 * time.Second
)

func (a ActiveCheck) orDefault() ActiveCheck {
	if a.Path == "" {
		a.Path = defaultCheckPath
	}
	if a.Timeout == 0 {
		a.Timeout = defaultCheckTimeout
	}
	return a
}

// missed is how long after the last check one is expected no more: the process
// that checks is gone. By then another has taken over, or nobody checks.
func (a ActiveCheck) missed() time.Duration { return 3*(a.Every+a.Timeout) + 10*time.Second }

// look is how often a process looks at what others' checks showed.
const look = time.Second

// checker checks one backend.
type checker struct {
	ActiveCheck
	backend *backend
	used    time.Time // the check that last served as a probe
}

func (b *backend) checker() *checker { return &checker{ActiveCheck: b.Check, backend: b} }

// keep checks until ctx ends. Of the processes that share a store one does: who
// holds the only share of the check, or has the probe where the checks' circuit is
// open. The others see what it showed.
func (c *checker) keep(ctx context.Context, g *Gateway, store fusebox.Sharer) {
	duty := duty{store: store, name: c.backend.checkCircuit(), owner: g.owner, every: c.Every, missed: c.missed()}
	tick := time.NewTicker(min(c.Every, look))
	defer tick.Stop()
	for {
		if now := time.Now(); !now.Before(duty.next) {
			if c.open() {
				duty.leave(ctx, now) // it may be so for this host alone
				c.check(ctx, g)
			} else if duty.take(ctx, now) && !c.check(ctx, g) {
				duty.pass(ctx)
			}
		}
		if c.Probe {
			c.probe(ctx, time.Now())
		}
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), look)
			defer cancel()
			duty.leave(ctx, time.Now())
			return
		case <-tick.C:
		}
	}
}

// open reports whether the circuit of the checks is.
func (c *checker) open() bool {
	checks, err := c.backend.box.Circuit(c.backend.checkCircuit())
	return err == nil && checks.State().Phase != fusebox.Closed
}

// check asks the backend once, if its circuits let it, and reports whether
// nothing failed.
func (c *checker) check(ctx context.Context, g *Gateway) (well bool) {
	b := c.backend
	checks, err := b.box.Circuit(b.checkCircuit())
	if err != nil {
		g.log.Error("no circuit", "backend", b.Name, "error", err)
		return true
	}
	account, err := b.account()
	if err != nil || !c.may(checks, true) || account != nil && !c.may(account, c.Probe) {
		return true
	}
	p, err := b.permits(ctx, checks, checks.Allow)
	if err != nil {
		return true
	}
	v := c.ask(ctx, g)
	p.settle(&v)
	checks.State() // takes a success in now, with this time
	r := &v.result
	if r.Outcome != fusebox.Success {
		g.log.Info("check", "backend", b.Name, "circuit", checks.Name(), "outcome", r.Outcome.String(), "class", string(r.Class), "error", fusebox.ErrorText(r.Err))
	}
	return r.Outcome != fusebox.Failure
}

// may reports whether a circuit lets a check through.
func (c *checker) may(circuit *fusebox.Circuit, probe bool) bool {
	state := circuit.State()
	return state.Decide(time.Now()).Go || probe && probing(&state, time.Now())
}

// probing reports whether a circuit's cooldown is over: a probe may be free, or
// have been granted to this process too late for who asked for it.
func probing(s *fusebox.State, now time.Time) bool {
	d := s.Decide(now)
	return d.Probe || d.Reason == fusebox.ReasonProbing
}

// ask makes the call. Any answer that is no failure says that the backend can
// be reached.
func (c *checker) ask(ctx context.Context, g *Gateway) verdict {
	limited, cancel := context.WithTimeoutCause(ctx, c.Timeout, &limitError{theWhole, c.Timeout})
	defer cancel()
	r, err := http.NewRequestWithContext(limited, http.MethodGet, prefix+defaultCheckPath, nil)
	if err != nil {
		return failure(fusebox.ClassServer, 0, err)
	}
	if c.backend.Dialect == Anthropic {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	a := attempt{call: &call{g: g, r: r, endpoint: endpoint{dialect: c.backend.Dialect, path: c.Path}}, backend: c.backend, ctx: limited}
	response, err := c.backend.transport.RoundTrip(a.request())
	if err != nil {
		return judgeError(limited, ctx, err, false)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	if err != nil {
		return judgeError(limited, ctx, err, true)
	}
	if response.StatusCode/100 == 2 {
		return verdict{}
	}
	a.judge(response.StatusCode, response.Header, body)
	if v := &a.verdict; v.result.Class == fusebox.ClassAuth && c.backend.KeyName == "" {
		v.result = fusebox.Result{Outcome: fusebox.Rejected, Err: v.result.Err} // it wants a key that it has not been given
	}
	return a.verdict
}

// probe has the newest check that was answered decide for the models' circuits
// whose cooldown was over by then.
func (c *checker) probe(ctx context.Context, now time.Time) {
	b := c.backend
	checks, err := b.box.Circuit(b.checkCircuit())
	if err != nil {
		return
	}
	shown := checks.State()
	if shown.Phase != fusebox.Closed || shown.Streak > 0 || !shown.Checked.After(c.used) {
		return
	}
	c.used = shown.Checked
	for _, name := range b.circuitNames() {
		circuit, err := b.box.Circuit(name)
		if err != nil {
			continue
		}
		state := circuit.State()
		if !probing(&state, now) || !shown.Checked.After(state.Until) || !shown.Checked.After(state.Since) {
			continue
		}
		if p, err := circuit.Allow(ctx); err == nil && p.Probe() {
			p.Done(fusebox.Result{Outcome: fusebox.Success})
		}
	}
}

// checkCircuit is the name of the circuit of a backend's checks.
func (b *backend) checkCircuit() string { return "check/" + b.Name }

// awaits returns why a call is to wait for what the checks show, or nil: the
// backend cannot be reached, or the next check is to decide in place of the
// call. Where no check was made for a while, nothing waits for one.
func (b *backend) awaits(circuit *fusebox.Circuit, now time.Time) (*fusebox.Denial, error) {
	if b.Check.Every == 0 {
		return nil, nil
	}
	checks, err := b.box.Circuit(b.checkCircuit())
	if err != nil {
		return nil, err
	}
	shown := checks.State()
	d := shown.Decide(now)
	silent := now.Sub(heard(&shown)) > b.Check.missed()
	down := d.Reason == fusebox.ReasonHeld || !d.Go && d.Reason != fusebox.ReasonThrottled && !silent
	if down && !checks.Observes() {
		return shown.Denial(checks.Name(), now), nil
	}
	if b.Check.Probe && !silent && !circuit.Observes() {
		if state := circuit.State(); probing(&state, now) {
			return fusebox.NewDenial(fusebox.DenialInfo{Circuit: circuit.Name(), Reason: fusebox.ReasonProbing, Failures: state.CountAt(now),
				Until: heard(&shown).Add(b.Check.Every), LastError: state.LastError}), nil
		}
	}
	return nil, nil
}

// heard is when a circuit was last told something. What one host alone sees, the
// state says as Latest.
func heard(s *fusebox.State) time.Time {
	if s.Latest.After(s.Checked) {
		return s.Latest
	}
	return s.Checked
}

// countWait counts the refusal with the circuit of the checks, if it is its.
func (b *backend) countWait(ctx context.Context, d *fusebox.Denial) {
	if d.Circuit() != b.checkCircuit() || d.Reason() == fusebox.ReasonProbing {
		return
	}
	if checks, err := b.box.Circuit(d.Circuit()); err == nil {
		if p, err := checks.Allow(ctx); err == nil { // its time has just come: that is a check's
			p.Done(fusebox.Result{Outcome: fusebox.Canceled})
		}
	}
}
