package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/fusebox-go/fusebox"
)

// call is one request under way: it reports exactly once.
type call struct {
	ctx     context.Context // the caller's
	permit  fusebox.Permit
	settled atomic.Bool
	handed  bool // the body reports
}

func (c *call) settle(r fusebox.Result) {
	if c.settled.CompareAndSwap(false, true) {
		c.permit.Done(r)
	}
}

// settleUnwinding is deferred around the base's RoundTrip: one that panics has
// failed and goes on panicking, one that ends its goroutine says nothing of the
// host.
func (c *call) settleUnwinding() {
	if c.handed || c.settled.Load() {
		return
	}
	if v := recover(); v != nil {
		c.settle(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassPanic, Err: fmt.Errorf("panic: %v", v)})
		panic(v)
	}
	c.settle(fusebox.Result{Outcome: fusebox.Canceled})
}

// body reports its call when it ends: by EOF, by an error, or by being closed.
type body struct {
	io.ReadCloser
	call  *call
	atEnd fusebox.Result
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.call.permit.Answering() // a long answer is none that is overdue
	}
	switch {
	case errors.Is(err, io.EOF):
		b.call.settle(b.atEnd)
	case err != nil:
		b.call.settle(brokeOff(b.call.ctx, err))
	}
	return n, err
}

// Close reports a body that was not read to its end. What came until then was
// good, unless the caller has given up: then nobody knows. It reports first: a
// Read under way fails by the closing, which is no failure of the host.
func (b *body) Close() error {
	if err := b.call.ctx.Err(); errors.Is(err, context.Canceled) {
		b.call.settle(fusebox.Result{Outcome: fusebox.Canceled, Err: err})
	} else {
		b.call.settle(b.atEnd)
	}
	return b.ReadCloser.Close()
}

// endsWithHeader reports whether a response's header is all that can fail: there
// is no body, or the connection is the caller's from here on and may last for days.
func endsWithHeader(resp *http.Response) bool {
	return resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols
}

func worked(r fusebox.Result) bool {
	return r.Outcome == fusebox.Success || r.Outcome == fusebox.Rejected
}
