package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// maxModels is how many models of a backend have a circuit of their own. The
// names come from callers; the rest share one, so that nobody can make circuits
// without end.
const maxModels = 200

// backend is a Backend at work.
type backend struct {
	Backend
	base      *url.URL
	targets   map[string]*url.URL // of model calls without a query
	transport *http.Transport
	box       *fusebox.Box
	streamed  Timeouts
	whole     Timeouts
	budget    fusebox.Budget
	allowance *fusebox.Allowance // by budget
	limiter   *limiter
	clients   *throttledKeys // with ClientKey

	shared string // the circuit of models that have none of their own
	mu     sync.RWMutex
	seen   map[string]struct{} // circuits of its own models; guarded by mu
}

func newBackend(cfg Backend, box *fusebox.Box, retry fusebox.Retry) (*backend, error) {
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil {
		return nil, fmt.Errorf("gateway: backend %q: %w", cfg.Name, err)
	}
	b := &backend{Backend: cfg, base: base, box: box, shared: "model/" + cfg.Name + "/*", seen: map[string]struct{}{},
		streamed: cfg.Timeouts.forStreams(), whole: cfg.Timeouts.forWhole(), budget: retry.Budget, allowance: fusebox.NewAllowance(retry.Budget), limiter: newLimiter(cfg.Limit), clients: &throttledKeys{}}
	b.targets = make(map[string]*url.URL, len(modelCalls))
	for path := range modelCalls {
		b.targets[path] = b.target(path, "")
	}
	b.Check = cfg.Check.orDefault()
	if t := retry.Timeout; t > 0 {
		b.streamed.Total, b.whole.Total = min(b.streamed.Total, t), min(b.whole.Total, t)
	}
	dialer := &net.Dialer{Timeout: b.streamed.Connect, KeepAlive: 30 * time.Second}
	b.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    b.streamed.Connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // the gateway reads what it passes on
	}
	return b, nil
}

// limits are those for an answer of one kind.
func (b *backend) limits(stream bool) Timeouts {
	if stream {
		return b.streamed
	}
	return b.whole
}

// target is the URL of an endpoint's path at this backend. It must not be changed.
func (b *backend) target(path, query string) *url.URL {
	if u := b.targets[path]; u != nil && query == "" {
		return u
	}
	u := *b.base
	u.RawQuery = query
	escaped := b.base.EscapedPath() + path
	if plain, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = plain, escaped
	}
	return &u
}

// circuit returns the circuit of a model here. An empty model, one whose name
// is no circuit's, and those beyond the first 200 share model/BACKEND/*.
func (b *backend) circuit(model string) (*fusebox.Circuit, error) {
	return b.box.Circuit(b.circuitName(model))
}

func (b *backend) circuitName(model string) string {
	if model == "" {
		return b.shared
	}
	name, err := fusebox.CanonicalName("model/" + b.Name + "/" + model)
	if err != nil {
		return b.shared
	}
	b.mu.RLock()
	_, seen := b.seen[name]
	full := len(b.seen) >= maxModels
	b.mu.RUnlock()
	switch {
	case seen:
		return name
	case full:
		return b.shared
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) >= maxModels {
		return b.shared
	}
	b.seen[name] = struct{}{}
	return name
}

// circuitNames are the circuits of this backend's models here.
func (b *backend) circuitNames() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return append(slices.Collect(maps.Keys(b.seen)), b.shared)
}

// permits are the rights to make one visit.
type permits struct {
	model      fusebox.Permit
	credential fusebox.Permit // zero without a credential
	reach      fusebox.Permit // of the checks' circuit, in a last resort
	circuit    *fusebox.Circuit
	account    *fusebox.Circuit // the credential's; nil = none
	limiter    *limiter         // nil = the visit is not counted
	settled    bool
	renewed    time.Time // when the leases of probes last began anew
}

// admit asks for the permits of one visit; the model's, which may be the scarce
// one, is taken last. The error is a *fusebox.Denial, or what went wrong.
func (b *backend) admit(ctx context.Context, circuit *fusebox.Circuit) (p permits, err error) {
	waits, err := b.awaits(circuit, time.Now())
	switch {
	case err != nil:
		return permits{}, err
	case waits != nil:
		b.countWait(ctx, waits)
		return permits{}, waits
	}
	return b.take(ctx, circuit, circuit.Allow)
}

// take takes a place within the backend's limit, then the permits.
func (b *backend) take(ctx context.Context, circuit *fusebox.Circuit, allow func(context.Context) (fusebox.Permit, error)) (p permits, err error) {
	if err := b.limiter.enter(circuit.Name(), time.Now()); err != nil {
		return permits{}, err
	}
	if p, err = b.permits(ctx, circuit, allow); err != nil {
		b.limiter.leave()
		return permits{}, err
	}
	p.limiter = b.limiter
	return p, nil
}

// account is the circuit of the backend's credential; nil = it has none.
func (b *backend) account() (*fusebox.Circuit, error) {
	if b.KeyName == "" {
		return nil, nil
	}
	return b.box.Circuit("credential/" + b.KeyName)
}

// permits takes the credential's permit, then the circuit's.
func (b *backend) permits(ctx context.Context, circuit *fusebox.Circuit, allow func(context.Context) (fusebox.Permit, error)) (p permits, err error) {
	p.circuit = circuit
	if p.account, err = b.account(); err != nil {
		return permits{}, err
	}
	if p.account != nil {
		if p.credential, err = p.account.Allow(ctx); err != nil {
			return permits{}, err
		}
	}
	if p.model, err = allow(ctx); err != nil {
		p.credential.Done(fusebox.Result{Outcome: fusebox.Canceled})
		return permits{}, err
	}
	return p, nil
}

// admitLastResort asks for a probe before its time: of the circuit, or of the
// checks' one where that is what refused.
func (b *backend) admitLastResort(ctx context.Context, circuit *fusebox.Circuit, refused string) (p permits, err error) {
	if refused == circuit.Name() {
		return b.take(ctx, circuit, circuit.LastResort)
	}
	checks, err := b.box.Circuit(refused)
	if err != nil {
		return permits{}, err
	}
	reach, err := checks.LastResort(ctx)
	if err != nil {
		return permits{}, err
	}
	if p, err = b.take(ctx, circuit, circuit.Allow); err != nil {
		reach.Done(fusebox.Result{Outcome: fusebox.Canceled})
		return permits{}, err
	}
	p.reach = reach
	return p, nil
}

// renew keeps the slots of a visit that probes while its answer flows, however
// long that takes: a lease must not lapse under a call that is well.
func (p *permits) renew(now time.Time) {
	if !p.model.Probe() && !p.credential.Probe() {
		return
	}
	lease := p.circuit.Policy().Probe.Lease
	if p.account != nil {
		if other := p.account.Policy().Probe.Lease; lease == 0 || other > 0 && other < lease {
			lease = other
		}
	}
	if lease == 0 || now.Sub(p.renewed) < lease/3 { // without a length it has no end
		return
	}
	p.renewed = now
	p.model.Renew()
	p.credential.Renew()
}

// settle gives the permits back with what the visit showed. Only the first
// call counts.
func (p *permits) settle(v *verdict) {
	if p.settled {
		return
	}
	p.settled = true
	if p.limiter != nil {
		p.limiter.leave()
	}
	neutral := fusebox.Result{Outcome: fusebox.Canceled, Err: v.result.Err}
	forModel, forCredential := v.result, fusebox.Result{}
	switch {
	case v.owner == ofClient:
		forModel = neutral
	case v.owner == ofCredential && p.account != nil:
		forModel, forCredential = neutral, v.result
	case v.result.Outcome == fusebox.Canceled, v.result.Outcome == fusebox.Failure && v.result.Class != fusebox.ClassAuth:
		forCredential = neutral // nothing was learnt of it
	}
	p.credential.Done(forCredential)
	p.model.Done(forModel)
	if forModel.Outcome == fusebox.Throttled { // whoever throttles can be reached
		forModel = fusebox.Result{}
	}
	p.reach.Done(forModel)
}

// lapse gives back the permits of a visit that ended in a panic, which goes on.
func (p *permits) lapse() {
	if !p.settled {
		v := failure(fusebox.ClassPanic, 0, errors.New("panic in the gateway"))
		p.settle(&v)
	}
}

// takeOver shares what the backend's predecessor counts, so that a new
// configuration does not allow it all anew.
func (b *backend) takeOver(old *backend) {
	b.limiter, b.clients = old.limiter, old.clients
	b.limiter.set(b.Limit)
	if b.budget == old.budget {
		b.allowance = old.allowance
	}
	old.mu.RLock()
	defer old.mu.RUnlock()
	b.seen = maps.Clone(old.seen)
}
