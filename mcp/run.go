package mcp

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/fusebox-go/fusebox"
)

// RunHeader is the HTTP header that says which run a request belongs to.
const RunHeader = "Fusebox-Run"

// origin is what the transport knows of where a call comes from.
type origin struct {
	run     string // of the header
	session string // of the transport; "" = there is none
}

// runs finds the run that a call belongs to. A process is no run: it is only
// what is left when nothing better is known.
type runs struct {
	box   *fusebox.Box
	given string // at launch; "" = not

	mu  sync.Mutex
	own *fusebox.Run // the run that is this process's
}

// of returns the run of a call, by the first of these that is there: what was
// given at launch, the header, the key in _meta, the trace, the session, the
// process.
func (r *runs) of(meta json.RawMessage, from origin) *fusebox.Run {
	if r.given == "" {
		if id := firstOf(from.run, runInMeta(meta), from.session); id != "" {
			return r.box.Run(id)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil {
		r.own = r.box.Run(r.given)
	}
	return r.own
}

func (r *runs) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own != nil {
		r.own.End()
		r.own = nil
	}
}

func firstOf(ids ...string) string {
	for _, id := range ids {
		if id != "" {
			return id
		}
	}
	return ""
}

// runInMeta returns the run that a request's _meta tells, by its own key or as
// the trace that the request is part of.
func runInMeta(meta json.RawMessage) string {
	var run, trace string
	members(meta, func(key, value []byte) {
		switch string(key) {
		case metaRun:
			run = text(value)
		case "traceparent":
			trace = traceID(text(value))
		}
	})
	return firstOf(run, trace)
}

// traceID is the trace's part of a W3C traceparent: version-trace-parent-flags.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" || strings.Trim(parts[1], "0") == "" {
		return ""
	}
	return parts[1]
}
