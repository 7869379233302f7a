package gateway

import (
	"context"
	"net"
)

// DialThrough has the gateway reach its backends in another way than by TCP.
func (g *Gateway) DialThrough(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	for _, b := range g.backends {
		b.transport.DialContext = dial
	}
}
