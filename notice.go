package fusebox

import (
	"slices"
	"time"
)

// NoticeKind tells what a Notice is about.
type NoticeKind string

const (
	NoticeDegrading  NoticeKind = "degrading"  // a circuit's calls fail more often than is normal for it
	NoticeSteady     NoticeKind = "steady"     // they no longer do
	NoticeStruggling NoticeKind = "struggling" // many calls of a run failed in a row
	NoticeStuck      NoticeKind = "stuck"      // a run is stopped
	NoticeEnded      NoticeKind = "ended"      // a run ended, with Outcome
)

// Notice is something that people should hear of and no transition tells.
// It never refuses anything by itself.
type Notice struct {
	At      time.Time
	Kind    NoticeKind
	Circuit string     // of degrading, steady
	Run     string     // of the others
	Outcome RunOutcome // of ended
	Text    string     // why; may be empty
}

// OnNotice calls f for every notice, as [Box.OnTransition] does. stop ends it.
func (b *Box) OnNotice(f func(Notice)) (stop func()) {
	b.out.mu.Lock()
	defer b.out.mu.Unlock()
	id := b.out.next
	b.out.next++
	b.out.onNotice = append(b.out.onNotice, listener[Notice]{id, f})
	return func() {
		b.out.mu.Lock()
		defer b.out.mu.Unlock()
		b.out.onNotice = slices.DeleteFunc(b.out.onNotice, func(l listener[Notice]) bool { return l.id == id })
	}
}

// notify logs the notice and tells the listeners. The caller holds no lock.
func (b *Box) notify(n Notice) {
	log := b.cfg.Logger.Warn
	if n.Kind == NoticeSteady || n.Kind == NoticeEnded {
		log = b.cfg.Logger.Info
	}
	log("notice", "kind", string(n.Kind), "circuit", n.Circuit, "run", n.Run, "outcome", string(n.Outcome), "text", n.Text)
	b.out.mu.Lock()
	if len(b.out.onNotice) > 0 {
		b.out.queue = append(b.out.queue, n)
	}
	b.out.mu.Unlock()
	b.deliver()
}
