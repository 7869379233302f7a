package mcp

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox/internal/hopbyhop"
)

// outgoing is a client's message as the server is sent it.
func (f *front) outgoing(r *http.Request, body []byte) *http.Request {
	out := r.WithContext(r.Context())
	url := *r.URL
	out.URL, out.Header = &url, forwarded(r.Header)
	f.address(out)
	out.Close = false
	setBody(out, body)
	return out
}

// setBody gives a request a body that can be sent again, which a connection
// that has just been closed may need.
func setBody(r *http.Request, body []byte) {
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
}

// forwarded returns the headers of a request that the server is to see, those
// that a reverse proxy would send.
func forwarded(h http.Header) http.Header {
	out := make(http.Header, len(h)+2)
	named := h["Connection"]
	for name, values := range h {
		switch name {
		case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto": // a client's word on where it comes from
		case "Expect", "Content-Length": // of this connection: the body is here
		default:
			if !hopbyhop.Is(name, named) {
				out[name] = values
			}
		}
	}
	if _, given := out["User-Agent"]; !given {
		out["User-Agent"] = nil // net/http would put its own
	}
	return out
}

// relay passes a response on: one whose length is known as a whole, any other
// piece by piece as it comes. One that breaks breaks the client's connection, so
// that it is not taken for whole.
func (f *front) relay(w http.ResponseWriter, resp *http.Response) {
	named := resp.Header["Connection"]
	for name, values := range resp.Header {
		if !hopbyhop.Is(name, named) {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	buffer := f.buffers.Get()
	defer f.buffers.Put(buffer)
	var err error
	if resp.ContentLength < 0 || isStream(resp) {
		err = stream(w, resp.Body, buffer)
	} else {
		_, err = io.CopyBuffer(writer{w}, resp.Body, buffer)
	}
	resp.Body.Close() // now the trailers are known
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// writer hides that a ResponseWriter can read by itself, with a buffer of its own.
type writer struct{ io.Writer }

// stream passes on what comes as soon as it comes.
func stream(w http.ResponseWriter, body io.Reader, buffer []byte) error {
	flush := http.NewResponseController(w).Flush
	n, err := firstRead(flush, body, buffer)
	for {
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
		switch err {
		case nil:
			n, err = body.Read(buffer)
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// headTime is how long the head of a stream may wait for its first event. Most
// servers send them together, and then one write passes them on.
const headTime = 5 * time.Millisecond

// firstRead reads what is first, and flushes the head if that is late.
func firstRead(flush func() error, body io.Reader, buffer []byte) (int, error) {
	flushed := make(chan struct{})
	late := time.AfterFunc(headTime, func() {
		defer close(flushed)
		flush()
	})
	n, err := body.Read(buffer)
	if !late.Stop() {
		<-flushed
	}
	return n, err
}
