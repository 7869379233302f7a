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
	if typed, ok := errors.AsType[*ResultError](err); ok {
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
	if _, ok := errors.AsType[*net.DNSError](err); ok || isErrno(err, refusedErrnos) {
		return ClassConnect
	}
	if isErrno(err, resetErrnos) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return ClassReset
	}
	if e, ok := errors.AsType[timeouter](err); ok && e.Timeout() {
		return ClassTimeout
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return ClassConnect
	}
	return ClassTool
}

// timeouter is an error that knows whether it is a timeout.
type timeouter interface {
	error
	Timeout() bool
}

func isErrno(err error, of []syscall.Errno) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(of, errno)
}
