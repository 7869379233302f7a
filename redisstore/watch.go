package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

// channel is where changes are published; channels are the same for all
// databases of a server.
func (s *Store) channel() string {
	return fmt.Sprintf("%s%d:changes", s.prefix, s.link.option.SelectDB)
}

// Watch implements fusebox.Store. What others change in a circuit's phase, hold,
// throttle or probes arrives as a message, with the state. Every heartbeat it
// looks, besides, at the circuits that this process used of late, for messages
// that were lost and for batches whose reporter died. While the server is out of
// reach it goes on trying. It returns when ctx ends or the store is closed.
func (s *Store) Watch(ctx context.Context, changed func(circuit string, state fusebox.State)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := watcher{store: s, changed: changed, told: map[string]string{},
		messages: make(chan string, 256), look: make(chan struct{}, 1)}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(ctx)
	}()
	defer func() {
		cancel()
		<-listening
	}()
	return w.watch(ctx)
}

// watcher is one Watch under way.
type watcher struct {
	store    *Store
	changed  func(circuit string, state fusebox.State)
	told     map[string]string // by circuit: epoch and news
	messages chan string
	look     chan struct{} // something may have been missed
}

func (w *watcher) watch(ctx context.Context) error {
	beat := time.NewTimer(w.store.nextBeat())
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.store.link.ended:
			return fmt.Errorf("redisstore: %s: %w", w.store.address, fusebox.ErrClosed)
		case message := <-w.messages:
			w.tell(message)
		case <-w.look:
			w.lookAtAll(ctx)
		case <-beat.C:
			w.lookAtAll(ctx)
			beat.Reset(w.store.nextBeat())
		}
	}
}

// nextBeat is the heartbeat, 20 % more or less, so that workers do not go in step.
func (s *Store) nextBeat() time.Duration {
	return s.heartbeat*4/5 + rand.N(s.heartbeat*2/5+1)
}

// listen keeps a subscription. Every time it begins anew there is something to
// look for.
func (w *watcher) listen(ctx context.Context) {
	missed := func() {
		select {
		case w.look <- struct{}{}:
		default:
		}
	}
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(p rueidis.PubSubSubscription) {
		if p.Kind == "subscribe" {
			missed()
		}
	})
	for ctx.Err() == nil {
		client, err := w.store.link.get(ctx)
		if err == nil {
			_ = client.Receive(hooked, client.B().Subscribe().Channel(w.store.channel()).Build(), func(m rueidis.PubSubMessage) {
				select {
				case w.messages <- m.Message:
				default: // nobody waits for who reads too slowly
					missed()
				}
			})
		}
		pause(ctx, awayMax, awayMax, 0)
	}
}

// tell passes a message on: epoch, news, circuit and state.
func (w *watcher) tell(message string) {
	parts := strings.SplitN(message, "\n", 4)
	var state fusebox.State
	if len(parts) != 4 || json.Unmarshal([]byte(parts[3]), &state) != nil {
		return
	}
	name := parts[2]
	w.told[name] = parts[0] + " " + parts[1]
	state.Now = w.store.now()
	w.changed(name, state)
}

// forgetAfter is how long a circuit is looked at that this process does not use.
const forgetAfter = 10 * time.Minute

// lookAtAll reads the circuits of which something was not told.
func (w *watcher) lookAtAll(ctx context.Context) {
	used := w.store.usedLately()
	for names := range slices.Chunk(used, 100) {
		for name, mark := range w.differing(ctx, names) {
			state, err := w.store.apply(ctx, name, fusebox.Policy{}, nil)
			if err != nil {
				return // at the next beat
			}
			w.told[name] = mark
			w.changed(name, state)
		}
	}
	if len(w.told) > 2*len(used)+1000 { // others' circuits, of which there were messages
		w.told = map[string]string{}
	}
}

// differing returns the marks of those circuits that changed untold, or have
// batches that wait to be folded.
func (w *watcher) differing(ctx context.Context, names []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	client, err := w.store.link.get(ctx)
	if err != nil {
		return nil
	}
	var commands rueidis.Commands
	for _, name := range names {
		k := w.store.keys(name)
		commands = append(commands, client.B().Hmget().Key(k.of("state")).Field("epoch", "news").Build(),
			client.B().Exists().Key(k.of("pending")).Build())
	}
	answers := client.DoMulti(ctx, commands...)
	differ := map[string]string{}
	for i, name := range names {
		marks, err := answers[2*i].AsStrSlice()
		pending, err2 := answers[2*i+1].AsBool()
		if err != nil || err2 != nil {
			continue
		}
		if mark := strings.Join(marks, " "); pending || w.told[name] != mark {
			differ[name] = mark
		}
	}
	return differ
}

// usedLately lists the circuits to look at, and forgets the others.
func (s *Store) usedLately() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.used))
	for name, at := range s.used {
		if time.Since(at) > forgetAfter {
			delete(s.used, name)
			continue
		}
		names = append(names, name)
	}
	return names
}
