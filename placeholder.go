package fusebox

import "context"

// Replaced by thrash.go, retry.go, classify.go and run.go.

type Thrash struct{}
type Retry struct{}
type runs struct{}

func newRuns(*Box, Thrash, Retry) (*runs, error) { return &runs{}, nil }

func Classify(ctx context.Context, err error) Result {
	if ctx.Err() == context.Canceled {
		return Result{Outcome: Canceled, Err: err}
	}
	return Result{Outcome: Failure, Err: err}
}
