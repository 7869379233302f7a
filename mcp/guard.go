package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Config says how a Guard works.
type Config struct {
	Box *fusebox.Box

	// Circuits is the Box that holds the circuits of the server and its tools,
	// where they are to be nobody else's: one without a store, under policies
	// without rules, leaves thrash alone to refuse calls. nil = Box.
	Circuits *fusebox.Box

	// Server names the server in its circuits: server/SERVER and
	// tool/SERVER/TOOL. It is one segment of a circuit's name.
	Server string

	// Run is the run that every call belongs to; "" = what the calls say, else
	// the session, else this process.
	Run string

	// Deadline gives the time limit of a tool's calls, 0 for none; nil = none
	// has one. It must be below the client's own.
	Deadline func(tool string) time.Duration

	Logger *slog.Logger // nil = quiet
}

// Guard decides the tool calls of one server. It is safe for concurrent use.
type Guard struct {
	box      *fusebox.Box
	name     string
	circuit  *fusebox.Circuit // of the server
	tools    *tools
	runs     runs
	deadline func(tool string) time.Duration
	log      *slog.Logger
}

// New returns a Guard, or what is wrong with cfg.
func New(cfg Config) (*Guard, error) {
	if cfg.Box == nil {
		return nil, errors.New("mcp: Config: Box is missing")
	}
	name, err := fusebox.CanonicalName("server/" + cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("mcp: the server's name: %w", err)
	}
	name = strings.TrimPrefix(name, "server/")
	if name == "" || name == "server" || strings.ContainsAny(name, "/*") {
		return nil, fmt.Errorf("mcp: the server's name %q: want one word without / and *, as in server/crm and tool/crm/lookup", cfg.Server)
	}
	circuits := cfg.Circuits
	if circuits == nil {
		circuits = cfg.Box
	}
	circuit, err := circuits.Circuit("server/" + name)
	if err != nil {
		return nil, err
	}
	g := &Guard{box: cfg.Box, name: name, circuit: circuit, tools: newTools(circuits, name),
		runs: runs{box: cfg.Box, given: cfg.Run}, deadline: cfg.Deadline, log: cfg.Logger}
	if g.deadline == nil {
		g.deadline = func(string) time.Duration { return 0 }
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// Close ends the runs that are this process's own, which tells how they went.
func (g *Guard) Close() { g.runs.end() }

// call is a tool call that was let through.
type call struct {
	tool   string
	permit fusebox.RunPermit
	reach  fusebox.Permit // of the server's circuit
}

// admit decides a call, in the guard's order; the probes' permits come last. A
// call that cannot be guarded is let through: the guard must not be what fails.
func (g *Guard) admit(c toolCall, from origin) (*call, *fusebox.Denial) {
	circuit, shared, err := g.tools.circuit(c.tool)
	if err != nil {
		g.log.Warn("a tool is not guarded", "tool", c.tool, "error", err)
		return &call{tool: c.tool}, nil
	}
	run := g.runs.of(c.meta, from)
	arguments := c.arguments
	if shared {
		arguments = withTool(c.tool, arguments)
	}
	ctx := context.Background() // only bounds what little waiting there is
	permit, err := run.Allow(ctx, circuit, arguments)
	if d := fusebox.AsDenial(err); d != nil {
		g.log.Debug("denied", "tool", c.tool, "run", run.ID(), "reason", d.Reason())
		return nil, d
	}
	reach, err := g.circuit.Allow(ctx)
	if d := fusebox.AsDenial(err); d != nil {
		permit.Done(fusebox.Result{Outcome: fusebox.Canceled})
		g.log.Debug("denied", "tool", c.tool, "run", run.ID(), "reason", d.Reason(), "circuit", d.Circuit())
		return nil, fusebox.AsDenial(run.Refused(circuit, d))
	}
	return &call{c.tool, permit, reach}, nil
}

// done reports what the call came to.
func (c *call) done(v verdict) {
	c.reach.Done(v.server)
	c.permit.Done(v.tool)
}
