package fusebox

import "errors"

// Sentinels for errors.Is. The first six say why a call was refused: each is
// matched by a *[Denial] of that reason.
var (
	ErrOpen      = errors.New("fusebox: circuit open")
	ErrProbing   = errors.New("fusebox: circuit half-open, another call is probing it")
	ErrThrottled = errors.New("fusebox: throttled by the dependency")
	ErrThrash    = errors.New("fusebox: this exact call keeps failing")
	ErrStuck     = errors.New("fusebox: the run is stuck")
	ErrHeld      = errors.New("fusebox: held open by an operator")

	ErrName   = errors.New("fusebox: circuit name refused")
	ErrPolicy = errors.New("fusebox: policy refused")
	ErrClosed = errors.New("fusebox: closed") // a Box or Store after Close
	ErrFull   = errors.New("fusebox: too many circuits that may not be forgotten")
)
