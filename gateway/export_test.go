package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// DialThrough has the gateway reach its backends in another way than by TCP.
func (g *Gateway) DialThrough(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	for _, b := range g.backends {
		b.transport.DialContext = dial
	}
}

// Nobody returns a URL where nobody listens, for as long as the test runs: the
// port is that of a connection's near end. One that was listened on and given up
// may be the next server's.
func Nobody(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
	})
	return "http://" + conn.LocalAddr().String() + "/v1"
}
