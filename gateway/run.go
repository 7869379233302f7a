package gateway

import (
	"net/http"

	"github.com/fusebox-go/fusebox"
)

// headerRun says which run a request belongs to; none = to no run. The guard of
// MCP servers reads the same.
const headerRun = "Fusebox-Run"

// checkRun refuses a request of a run that is stuck, whichever front it got
// stuck at; nil = it may go on.
func (c *call) checkRun() *refusal {
	id := c.r.Header.Get(headerRun)
	if id == "" {
		return nil
	}
	c.run = c.g.box.Run(id)
	d := fusebox.AsDenial(c.run.Check(c.r.Context()))
	if d == nil {
		return nil
	}
	return &refusal{status: http.StatusConflict, code: "run_stuck", message: d.Instruction(), final: true, denial: d}
}

// countRefusal tells the request's run that it was refused for good, if no
// backend was asked: a run that goes on all the same is stopped in the end, and
// one that cannot go on without a circuit that is open is stopped now. It returns
// the refusal as the run is to be told it.
func (c *call) countRefusal(refusing *trial) *fusebox.Denial {
	for i := range c.trials {
		t := &c.trials[i]
		if c.run == nil || t.denial == nil {
			return refusing.denial
		}
		if d := t.denial.Reason(); t.circuit.StopsRun() && (d == fusebox.ReasonOpen || d == fusebox.ReasonHeld) {
			refusing = t
		}
	}
	return fusebox.AsDenial(c.run.Refused(refusing.circuit, refusing.denial))
}
