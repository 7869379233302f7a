package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/internal/retryafter"
)

// statusOverloaded is what some providers answer beside 503.
const statusOverloaded = 529

// Classify says what a response means by its status:
//
//	1xx, 2xx, 3xx       success
//	401, 403, 407       failure of class auth
//	408, 504            failure of class timeout
//	429                 throttled, until its Retry-After or until spent limits begin anew, if it says so
//	503, 529            failure of class overloaded; not asked again before its Retry-After if it has one
//	other 4xx           rejected: the host answered, the request was wrong
//	other 5xx           failure of class server
//
// It leaves the body alone. Use it inside a Config.Classify of your own for the
// statuses that mean nothing special to you.
func Classify(resp *http.Response) fusebox.Result {
	status := resp.StatusCode
	switch {
	case status < 400:
		return fusebox.Result{Outcome: fusebox.Success}
	case status == http.StatusTooManyRequests:
		now := time.Now()
		notBefore := retryafter.Latest(retryafter.Of(resp.Header, now), retryafter.Spent(resp.Header, now))
		return fusebox.Result{Outcome: fusebox.Throttled, NotBefore: notBefore, Err: statusError(status)}
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		r := failure(fusebox.ClassOverloaded, statusError(status))
		r.NotBefore = retryafter.Of(resp.Header, time.Now())
		return r
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return failure(fusebox.ClassAuth, statusError(status))
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return failure(fusebox.ClassTimeout, statusError(status))
	case status < 500:
		return fusebox.Result{Outcome: fusebox.Rejected, Err: statusError(status)}
	}
	return failure(fusebox.ClassServer, statusError(status))
}

func statusError(status int) error {
	if text := http.StatusText(status); text != "" {
		return fmt.Errorf("HTTP status %d %s", status, text)
	}
	return fmt.Errorf("HTTP status %d", status)
}

func failure(c fusebox.Class, err error) fusebox.Result {
	return fusebox.Result{Outcome: fusebox.Failure, Class: c, Err: err}
}

// failedToSend says what it means that the base returned err and no response.
func failedToSend(ctx context.Context, err error) fusebox.Result {
	r := fusebox.Classify(ctx, err)
	var certificate *tls.CertificateVerificationError
	switch {
	case r.Class != fusebox.ClassTool:
	case errors.As(err, &certificate):
		r.Class = fusebox.ClassConnect
	default:
		r.Class = fusebox.ClassReset
	}
	return r
}

// brokeOff says what it means that a body ended with err.
func brokeOff(ctx context.Context, err error) fusebox.Result {
	r := fusebox.Classify(ctx, err)
	if r.Class == fusebox.ClassTool || r.Class == fusebox.ClassReset {
		r.Class = fusebox.ClassStream
	}
	return r
}
