package gateway

import (
	"context"
	"time"

	"github.com/fusebox-go/fusebox"
)

// duty is a process's turn to check a backend, among those that share a store.
type duty struct {
	store         fusebox.Sharer // nil = there are no others
	name, owner   string
	every, missed time.Duration
	next          time.Time // when it is due
	held, others  bool      // it is this process's; others wait for it
}

// take reports whether it is this process's turn. Where the store is out of
// reach it is everyone's.
func (d *duty) take(ctx context.Context, now time.Time) bool {
	d.next = now.Add(d.every)
	if d.store == nil {
		return true
	}
	share, err := d.store.Share(ctx, d.name, d.claim(1, d.missed-d.every))
	d.held, d.others = d.held && err != nil || share.Held > 0, share.Owners > 1
	return err != nil || share.Held > 0
}

// pass has another process check next: what failed here may be this host's
// fault.
func (d *duty) pass(ctx context.Context) {
	if !d.others {
		return
	}
	if _, err := d.store.Share(ctx, d.name, d.claim(1, d.every)); err == nil {
		d.next = d.next.Add(d.every)
	}
}

// leave gives the duty up, if it is this process's; where that does not arrive it
// lapses.
func (d *duty) leave(ctx context.Context, now time.Time) {
	d.next = now.Add(d.every)
	if !d.held {
		return
	}
	if _, err := d.store.Share(ctx, d.name, d.claim(0, d.every)); err == nil {
		d.held = false
	}
}

func (d *duty) claim(want int, length time.Duration) fusebox.Claim {
	return fusebox.Claim{Owner: d.owner, Limit: 1, Want: want, For: length}
}
