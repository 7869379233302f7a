package fusebox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestClassify(t *testing.T) {
	background := context.Background()
	canceled, cancel := context.WithCancel(background)
	cancel()
	expired, stop := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer stop()
	boom := errors.New("boom")
	until := time.Now().Add(time.Minute)
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want Result
	}{
		{"nothing is a success", canceled, nil, Result{}},
		{"anything else is a tool's failure", background, boom, Result{Outcome: Failure, Class: ClassTool}},
		{"the caller's cancel, turned into a text", canceled, errors.New("driver: canceled"), Result{Outcome: Canceled}},
		{"the caller's cancel, though marked as a failure", canceled, Fail(ClassServer, boom), Result{Outcome: Canceled}},
		{"somebody else's cancel is no cancel of the caller", background, context.Canceled, Result{Outcome: Failure, Class: ClassTool}},
		{"the caller's deadline, turned into a text", expired, errors.New("gave up"), Result{Outcome: Failure, Class: ClassTimeout}},
		{"somebody else's deadline", background, fmt.Errorf("call: %w", context.DeadlineExceeded), Result{Outcome: Failure, Class: ClassTimeout}},
		{"a connection's deadline", background, os.ErrDeadlineExceeded, Result{Outcome: Failure, Class: ClassTimeout}},
		{"an answer that came with the deadline", expired, Reject(boom), Result{Outcome: Rejected}},
		{"an inner guard's denial", background, fmt.Errorf("inner: %w", NewDenial(DenialInfo{Reason: ReasonOpen})), Result{Outcome: Canceled}},
		{"marked as a failure", background, fmt.Errorf("outer: %w", Fail(ClassServer, boom)), Result{Outcome: Failure, Class: ClassServer}},
		{"marked as throttled", background, Throttle(until, boom), Result{Outcome: Throttled, NotBefore: until}},
		{"no such host", background, &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, Result{Outcome: Failure, Class: ClassConnect}},
		{"no route", background, &net.OpError{Op: "dial", Err: errors.New("no route")}, Result{Outcome: Failure, Class: ClassConnect}},
		{"a dial that timed out", background, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, Result{Outcome: Failure, Class: ClassTimeout}},
		{"reset", background, &net.OpError{Op: "read", Err: os.NewSyscallError("read", resetErrnos[0])}, Result{Outcome: Failure, Class: ClassReset}},
		{"refused", background, &net.OpError{Op: "read", Err: os.NewSyscallError("connect", refusedErrnos[0])}, Result{Outcome: Failure, Class: ClassConnect}},
		{"broken off", background, fmt.Errorf("body: %w", io.ErrUnexpectedEOF), Result{Outcome: Failure, Class: ClassReset}},
		{"hung up", background, io.EOF, Result{Outcome: Failure, Class: ClassReset}},
		{"another errno", background, os.NewSyscallError("open", syscall.ENOENT), Result{Outcome: Failure, Class: ClassTool}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Classify(tt.ctx, tt.err)
			if tt.err != nil && got.Err == nil {
				t.Error("the error is lost")
			}
			got.Err = nil
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestClassifyOfARealRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = net.DialTimeout("tcp", address, 5*time.Second)
	if got := Classify(context.Background(), err); got.Class != ClassConnect {
		t.Errorf("%v: class %q, want connect", err, got.Class)
	}
}
