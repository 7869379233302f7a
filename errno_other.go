//go:build !windows

package fusebox

import "syscall"

// What the system says when no connection was made, and when one broke.
var (
	refusedErrnos = []syscall.Errno{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN}
	resetErrnos   = []syscall.Errno{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE}
)
