package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Listener is an address to serve on and the token that callers must show.
type Listener struct {
	Listen string // host:port; port 0 picks a free one
	Token  Secret // required off loopback
}

// Validate reports an address that cannot be listened on, and one off loopback
// that has no token.
func (l Listener) Validate() error {
	host, port, err := net.SplitHostPort(l.Listen)
	if err != nil {
		return fmt.Errorf("want host:port such as 127.0.0.1:4040, have %s", shown(l.Listen))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("want a port from 0 to 65535, have %s", shown(port))
	}
	if strings.ContainsAny(host, "/ \t@") {
		return fmt.Errorf("want host:port such as 127.0.0.1:4040, have %s", shown(l.Listen))
	}
	if l.Token.IsZero() && !IsLoopback(l.Listen) {
		return fmt.Errorf("want a token for an address that others can reach, have %s without one", shown(l.Listen))
	}
	return nil
}

// IsLoopback reports whether only this machine can reach an address, host:port.
// An empty host is every address of the machine, and so is not.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
