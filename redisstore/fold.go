package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

// near is by how much a worker's clock may be ahead of the server's for its
// events to have happened just now, as seen by the server.
const near = time.Second

// try sends the batch, which is skipped where it has arrived, and folds what is
// pending if nobody else does. It is done when the batch has been folded.
func (r *report) try(ctx context.Context) (done bool, err error) {
	a, err := r.append(ctx)
	switch {
	case err != nil:
		return false, err
	case a.holder:
		return r.fold(ctx, a)
	}
	return a.in-a.waiting >= r.position, nil
}

// append sends the batch, tries the lock, and reads the state if it got that or
// the batch is folded.
func (r *report) append(ctx context.Context) (appended, error) {
	s := r.store
	args := append([]string{r.token, millis(s.lockFor()), millis(r.seenFor), millis(s.keep), strconv.Itoa(maxPending),
		strconv.FormatInt(r.position, 10), r.given}, r.batch...)
	answer, sent, received, err := s.link.run(ctx, appendScript,
		[]string{r.keys.of("state"), r.keys.of("pending"), r.keys.of("lock"), r.keys.of("seen:" + r.from)}, args)
	if err != nil {
		return appended{}, err
	}
	a, err := readAppended(answer)
	if err != nil {
		return a, err
	}
	s.clock.heard(sent, received, a.time)
	if r.position != anywhere && (a.pushed || r.position == nowhere || a.epoch != r.epoch) {
		r.epoch, r.position = a.epoch, a.in
	}
	return a, r.read(a.state)
}

// read takes over the state as it is recorded.
func (r *report) read(state string) error {
	r.state = fusebox.State{}
	if state == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(state), &r.state); err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	return nil
}

// maxRounds bounds how long one holder folds for others.
const maxRounds = 20

// fold folds what is pending and commits it, and what came in meanwhile.
func (r *report) fold(ctx context.Context, a appended) (done bool, err error) {
	s := r.store
	folded, batches, now := a.in-a.waiting, a.batches, a.time
	for round := 1; len(batches) > 0; round++ {
		before := r.state
		if before.Revision == 0 && before.Seed == 0 {
			r.state.Seed = rand.Uint64() >> 11
		}
		lines, n := r.foldBatches(batches, s.onServer(now))
		state, err := json.Marshal(&r.state)
		if err != nil {
			return false, err
		}
		stateTime, channel, goOn := s.keep, "", "1"
		if r.state.Phase != fusebox.Closed || r.state.Hold != nil {
			stateTime = 0
		}
		if isNews(&before, &r.state) {
			channel = s.channel()
		}
		if round == maxRounds {
			goOn = "0"
		}
		args := append([]string{r.token, millis(s.lockFor()), millis(s.keep), millis(stateTime), strconv.FormatInt(folded, 10),
			strconv.Itoa(n), string(state), channel, r.name, goOn, strconv.Itoa(maxEvidence)}, lines...)
		answer, sent, received, err := s.link.run(ctx, commitScript,
			[]string{r.keys.of("state"), r.keys.of("pending"), r.keys.of("lock"), r.keys.of("log")}, args)
		if err != nil || len(answer) == 0 { // refused: somebody else folds them
			return false, err
		}
		folded += int64(n)
		if now, batches, err = readCommitted(answer); err != nil {
			return false, err
		}
		s.clock.heard(sent, received, now)
	}
	return folded >= r.position, nil
}

// foldBatches folds batches into the state, as many as there is time for while
// the lock is held, and returns the lines of evidence that tell of them. What
// cannot be read is recorded as it is: readers report it.
func (r *report) foldBatches(batches []string, now time.Time) (lines []string, folded int) {
	begun := time.Now()
	for _, batch := range batches {
		if folded > 0 && time.Since(begun) > lockTime/4 {
			break
		}
		folded++
		given, events, _ := strings.Cut(batch, "\n")
		var p fusebox.Policy
		if given != "" {
			if err := json.Unmarshal([]byte(given), &p); err != nil || p.Validate() != nil {
				p = fusebox.Policy{}
			}
		}
		for line := range strings.SplitSeq(events, "\n") {
			e, err := fusebox.ParseEvent([]byte(line))
			if err != nil {
				lines = append(lines, line)
				continue
			}
			e.Circuit = r.name
			switch ahead := e.At.Sub(now); {
			case ahead > near:
				e.Seen = now
			case ahead > 0:
				e.At = now
			}
			if e.Kind == fusebox.KindDenied || e.Kind == fusebox.KindLease {
				e.At = notBehind(e.At, &r.state, now)
				e.At = notBehind(e.At, r.state.For(e.Worker), now)
			}
			if p.IsZero() && r.state.Policy.IsZero() {
				p = quorate(fusebox.DefaultPolicy(fusebox.Kind(r.name)))
			}
			e.MarkLate(&r.state)
			before := r.state
			r.state = fusebox.Fold(p, r.state, e)
			e.Circuit = ""
			lines = append(lines, string(e.AppendJSON(nil)))
			if t, changed := fusebox.Changed("", &before, &r.state); changed {
				told := t.Event()
				lines = append(lines, string(told.AppendJSON(nil)))
			}
		}
	}
	return lines, folded
}

// notBehind returns the time of a refusal or of a request for a probe as it is
// folded: not before the cooldown and the probes of s began. A Fold that is told
// of one from long before takes the clock for set back and begins them anew, but
// by the server's clock it is a report that comes late.
func notBehind(at time.Time, s *fusebox.State, now time.Time) time.Time {
	if s.Phase == fusebox.Closed {
		return at
	}
	latest := func(began time.Time) {
		if began.After(at) && !began.After(now) {
			at = began
		}
	}
	latest(s.Since)
	for i := range s.Leases {
		latest(s.Leases[i].At)
	}
	return at
}

// isNews reports whether other workers should hear of a change at once.
func isNews(before, after *fusebox.State) bool {
	return before.Version != after.Version || !before.Until.Equal(after.Until) || !before.Throttled.Equal(after.Throttled) || !slices.Equal(before.Leases, after.Leases) || ownIsNews(before, after)
}

// ownIsNews reports whether a host's own circuit, or its probe, has changed.
func ownIsNews(before, after *fusebox.State) bool {
	for i := range after.Hosts {
		was, is := ownOf(before, after.Hosts[i].Name), ownOf(after, after.Hosts[i].Name)
		if was.Phase != is.Phase || !was.Until.Equal(is.Until) || !slices.Equal(was.Leases, is.Leases) {
			return true
		}
	}
	return false
}

// ownOf returns a host's own circuit; the zero one is closed.
func ownOf(s *fusebox.State, host string) (own fusebox.OwnCircuit) {
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Name == host && h.Own != nil {
			own = *h.Own
		}
	}
	return own
}

// appended is what the append script answers.
type appended struct {
	time    time.Time
	epoch   string
	in      int64 // batches that ever came in
	waiting int64 // of these, not folded yet
	pushed  bool  // some of the report had not arrived before
	holder  bool  // the lock is ours
	state   string
	batches []string
}

// What is not mended by trying again.
var (
	errAnswer = errors.New("the server's answer is not one of our scripts'")
	errState  = errors.New("the state that is recorded cannot be read")
)

func readAppended(m []rueidis.RedisMessage) (appended, error) {
	if len(m) != 9 {
		return appended{}, errAnswer
	}
	var a appended
	var pushed, holder int64
	err := errors.Join(
		readTime(&a.time, m[0], m[1]), read(&a.epoch, m[2].ToString), read(&a.in, m[3].AsInt64), read(&a.waiting, m[4].AsInt64),
		read(&pushed, m[5].AsInt64), read(&holder, m[6].AsInt64), read(&a.state, m[7].ToString), read(&a.batches, m[8].AsStrSlice))
	a.pushed, a.holder = pushed == 1, holder == 1
	return a, err
}

func readCommitted(m []rueidis.RedisMessage) (now time.Time, batches []string, err error) {
	if len(m) != 3 {
		return now, nil, errAnswer
	}
	err = errors.Join(readTime(&now, m[0], m[1]), read(&batches, m[2].AsStrSlice))
	return now, batches, err
}

func read[T any](into *T, from func() (T, error)) (err error) {
	*into, err = from()
	return err
}

// readTime reads the answer of TIME.
func readTime(into *time.Time, seconds, micros rueidis.RedisMessage) error {
	var s, us int64
	err := errors.Join(read(&s, seconds.AsInt64), read(&us, micros.AsInt64))
	*into = time.Unix(s, us*1000).UTC()
	return err
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
