package replay

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// TestReplayTellsWhatHappened replays the log of a live circuit under its own
// policy: calls that hang are counted before their end, open the circuit, are
// recorded once more when they end, and a probe closes it.
func TestReplayTellsWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy(t, func(p *fusebox.Policy) { p.Overdue, p.Cooldown.After = 5*time.Second, time.Minute }, "streak=3")
		box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return p }})
		if err != nil {
			t.Fatal(err)
		}
		var log, happened []byte
		box.OnEvidence(func(e fusebox.Event) { log = append(e.AppendJSON(log), '\n') })
		box.OnTransition(func(tr fusebox.Transition) { happened = AppendTransition(happened, tr) })
		c, err := box.Circuit("model/a")
		if err != nil {
			t.Fatal(err)
		}
		call := func(takes time.Duration, r fusebox.Result) {
			permit, err := c.Allow(t.Context())
			if err != nil {
				return
			}
			go func() {
				time.Sleep(takes)
				permit.Done(r)
			}()
		}
		for range 2 { // two hang: one answers at last, one fails
			call(20*time.Second, fusebox.Result{})
			call(time.Second, fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer})
			time.Sleep(7 * time.Second)
		}
		for range 20 {
			time.Sleep(10 * time.Second)
			call(time.Second, fusebox.Result{})
		}
		time.Sleep(time.Minute)
		if err := box.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := output(t, Options{Policy: always(p)}, string(log))
		var replayed []string
		for line := range strings.Lines(got) {
			if !strings.Contains(line, "summary") {
				replayed = append(replayed, line)
			}
		}
		if want := slices.Collect(strings.Lines(string(happened))); !slices.Equal(replayed, want) || len(want) != 3 {
			t.Errorf("happened\n%sreplayed\n%sthe log\n%s", happened, got, log)
		}
	})
}
