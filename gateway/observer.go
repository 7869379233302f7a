package gateway

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// Observer is told what the gateway does, for metrics. Its functions must be
// quick and safe for concurrent use; nil ones are left out.
type Observer struct {
	Attempt func(Attempt) // one call of one backend has ended
	Request func(Request) // one client's request was answered, or given up
}

// Attempt is one call of one backend.
type Attempt struct {
	Backend    string
	Dialect    Dialect
	Circuit    string // that guards it; its number is bounded, as labels need
	Outcome    fusebox.Outcome
	Class      fusebox.Class
	Elapsed    time.Duration
	FirstToken time.Duration // from the attempt's start to the first content of a stream; 0 = none came
}

// Request is one client's request.
type Request struct {
	Dialect    Dialect
	Route      string // the pattern that matched; "" = none
	Backend    string // that answered; "" = none
	Circuit    string // that guards it
	Status     int    // HTTP status; 499 when the client went away before there was one
	Outcome    string // "ok", "degraded", "failed", "canceled"
	Attempts   int
	Failovers  int // backends that were tried in vain
	Refusals   int // backends that were not tried, because a circuit refused
	Elapsed    time.Duration
	FirstToken time.Duration // from the request's arrival to the first content; 0 = none came, or not streamed
}
