package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func tryRedis(t *testing.T) *redisServer {
	t.Helper()
	if !hasRedis() {
		t.Fatal("no redis-server: scripts/install-test-deps.sh installs it")
	}
	r, err := startRedis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

// A backend breaks under two workers, once for each way of keeping their
// circuits: no circuit opens before its threshold, however slow the machine is,
// and those who share one send one probe at a time.
func TestOutages(t *testing.T) {
	var all []outage
	for _, s := range []sharing{alone, shared, early, distributed} {
		o := usualOutage
		o.sharing, o.workers, o.rate = s, 2, 100
		o.cooldown, o.probing = 100*time.Millisecond, 300*time.Millisecond
		all = append(all, o)
	}
	f := newTrial()
	var printed strings.Builder
	if err := f.outages(&printed, tryRedis(t), all); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + printed.String())
	if rows(printed.String(), "2 |") != len(all) || len(f.outcomes) != len(all) {
		t.Errorf("want a line for each of %d ways", len(all))
	}
	if budgets := trialOf(t, f, "budgets"); rows(budgets, "a fleet's probes at once") != 1 {
		t.Errorf("the probes are not judged:\n%s", budgets)
	}
	for _, o := range f.outcomes {
		if o.sharing != early && o.reached < o.threshold {
			t.Errorf("%s: %d calls reached the backend, and %d failures are needed", o.sharing, o.reached, o.threshold)
		}
		if o.sharing == shared && o.together > 1 {
			t.Errorf("%s: %d probes at once", o.sharing, o.together)
		}
	}
}

// Of what is reported at once to fusebox's store, nothing is lost.
func TestContention(t *testing.T) {
	f := newTrial()
	var printed strings.Builder
	if err := f.contention(&printed, tryRedis(t), []int{1, 3}); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + printed.String())
	for _, begin := range []string{"1 |", "3 |"} {
		if rows(printed.String(), begin) != len(crowdWays) {
			t.Errorf("want a line for each way of %s", begin)
		}
	}
	if budgets := trialOf(t, f, "budgets"); rows(budgets, "reports of a fleet, counted of made | ≥ 1 | 1.00 | yes") != 1 {
		t.Errorf("the reports are not judged well:\n%s", budgets)
	}
	for _, m := range f.reports {
		if m.counted != m.made || m.made == 0 {
			t.Errorf("%d failures are counted of %d", m.counted, m.made)
		}
		if m.commands.median() < 2 || m.reads.median() <= 0 {
			t.Errorf("commands a report: %v, reads: %v", m.commands, m.reads)
		}
	}
}

func TestPush(t *testing.T) {
	f := newTrial()
	var printed strings.Builder
	if err := f.push(&printed, tryRedis(t), []int{2}); err != nil {
		t.Fatal(err)
	}
	if rows(printed.String(), "2 |") != 1 {
		t.Errorf("want one line:\n%s", &printed)
	}
}

// Every call that failed is counted, once the workers have reported.
func TestThroughput(t *testing.T) {
	redis := tryRedis(t)
	m := mill{length: time.Millisecond, lasting: 50 * time.Millisecond}
	var printed strings.Builder
	if err := newTrial().throughput(&printed, redis, []int{2}, m); err != nil {
		t.Fatal(err)
	}
	if rows(printed.String(), "work | 2") != 2 || rows(printed.String(), "fail | 2") != 2 {
		t.Errorf("want two lines of each kind of call:\n%s", &printed)
	}
	m.workers, m.result = 3, errBroken
	r, err := m.run(redis, shared)
	if err != nil {
		t.Fatal(err)
	}
	if r.calls == 0 || r.counted != r.calls || r.lost > 0 {
		t.Errorf("%d calls, of which %d are counted and %d were lost", r.calls, r.counted, r.lost)
	}
}

// Where there is no server, a table says so in a word and the run goes on.
func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, part := range map[string]func(*findings, io.Writer) error{"fleet": (*findings).fleet, "redis": (*findings).redis} {
		var printed strings.Builder
		if err := part(newTrial(), &printed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(printed.String(), noRedis) {
			t.Errorf("%s does not say what is missing:\n%s", name, &printed)
		}
	}
}
