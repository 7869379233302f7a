package fusebox

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
)

// Classify turns what a guarded function returned into a Result; it is what a
// Box does unless its Config says otherwise. ctx is the context that the
// function was called with. In this order:
//
//   - nil is a success.
//   - The caller's own cancel is Canceled, whatever the error says: callees turn
//     it into all sorts of texts.
//   - A *[Denial] of an inner guard is Canceled: a refusal of our own is no
//     evidence of the dependency's health.
//   - A *[ResultError] ([Reject], [Fail], [Throttle]) says itself what it is.
//   - A deadline that passed, whoever set it, is a Failure of class timeout.
//   - Errors of the network are Failures of class connect (no connection was
//     made), reset (it broke) or timeout.
//   - Anything else is a Failure of class tool: the function said that it
//     failed. Whether an answer was a refusal (Rejected) only the function knows.
func Classify(ctx context.Context, err error) Result {
	if err == nil {
		return Result{}
	}
	if errors.Is(ctx.Err(), context.Canceled) || AsDenial(err) != nil {
		return Result{Outcome: Canceled, Err: err}
	}
	var typed *ResultError
	if errors.As(err, &typed) {
		r := typed.Result
		if r.Err == nil {
			r.Err = err
		}
		return r
	}
	return Result{Outcome: Failure, Class: failureClass(ctx, err), Err: err}
}

func failureClass(ctx context.Context, err error) Class {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return ClassTimeout
	}
	var dns *net.DNSError
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns), isErrno(err, refusedErrnos):
		return ClassConnect
	case isErrno(err, resetErrnos), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return ClassReset
	case errors.As(err, &timeout) && timeout.Timeout():
		return ClassTimeout
	case errors.As(err, &op) && op.Op == "dial":
		return ClassConnect
	}
	return ClassTool
}

func isErrno(err error, of []syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(of, errno)
}
