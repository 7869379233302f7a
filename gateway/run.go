package gateway

import (
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
)

// headerRun says which run a request belongs to; none = to no run. The guard of
// MCP servers reads the same.
const headerRun = "Fusebox-Run"

// stuckRun refuses a request of a run that is stuck, whichever front it got
// stuck at; nil = it may go on.
func (c *call) stuckRun() *refusal {
	if c.run = c.r.Header.Get(headerRun); c.run == "" {
		return nil
	}
	record, err := c.g.box.Circuit(fusebox.RunCircuit(c.run))
	if err != nil {
		return nil // what cannot be looked up stops nobody
	}
	p, err := record.Allow(c.r.Context())
	if p.Probe() { // it was stuck for long enough
		p.Done(fusebox.Result{})
	}
	d := fusebox.AsDenial(err)
	if d == nil {
		return nil
	}
	d = fusebox.NewDenial(fusebox.DenialInfo{Circuit: d.Circuit(), Reason: fusebox.ReasonStuck, Run: c.run,
		Until: time.Now().Add(d.RetryAfter()), LastError: d.LastError(), Instruction: d.Instruction()})
	return &refusal{status: http.StatusConflict, code: "run_stuck", message: d.Instruction(), final: true, denial: d}
}
