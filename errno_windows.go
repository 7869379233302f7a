package fusebox

import "syscall"

// What Winsock says when no connection was made, and when one broke. The names
// that package syscall has for them on other systems are invented numbers here.
var (
	refusedErrnos = []syscall.Errno{10061 /* refused */, 10065 /* no route to host */, 10051 /* no network */, 10050 /* network down */}
	resetErrnos   = []syscall.Errno{10054 /* reset */, 10053 /* aborted */, syscall.ERROR_BROKEN_PIPE, 232 /* pipe is being closed */}
)
