// Package hopbyhop tells the headers that belong to one connection from those
// that go on to the next (RFC 9110, section 7.6.1).
package hopbyhop

import "strings"

// Is reports whether a header, by its canonical name, belongs to one connection:
// always, or because the message's Connection headers name it.
func Is(name string, connection []string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	for _, line := range connection {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), name) {
				return true
			}
		}
	}
	return false
}
