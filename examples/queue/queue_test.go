//go:build unix

package main

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fusebox-go/fusebox"
)

// patience bounds every wait of these tests; none of them comes near it.
const patience = time.Minute

// never is a time that does not come during a test.
const never = time.Hour

// small is a scenario of a few seconds in which nothing comes back by itself:
// neither a job that was denied nor one that failed, and no circuit is probed.
func small(t *testing.T) scenario {
	s := scenario{workers: 3, healthy: 120, degraded: 60, calls: 25, answers: time.Millisecond, hangs: 20 * time.Millisecond}
	s.redis, s.name = startRedis(t), "example"
	s.policy = fusebox.DefaultPolicy("model")
	s.policy.Cooldown.After, s.policy.Cooldown.Max = never, 0
	s.guard, s.limit, s.atOnce, s.look = true, patience, 2, 100*time.Millisecond
	s.afterError = after(never)
	return s
}

func after(d time.Duration) asynq.RetryDelayFunc {
	return func(int, error, *asynq.Task) time.Duration { return d }
}

func begin(t *testing.T, s scenario) *stage {
	t.Helper()
	st, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func (g *group) mustEnd(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// rested waits until no worker has anything to do, and returns what is in the queue.
func (st *stage) rested(t *testing.T) *asynq.QueueInfo {
	t.Helper()
	var info *asynq.QueueInfo
	eventually(t, "the workers have nothing to do", func() bool {
		var err error
		if info, err = st.queue.inspector.GetQueueInfo(st.name); err != nil {
			t.Fatal(err)
		}
		return info.Pending == 0 && info.Active == 0
	})
	return info
}

// recover lets the degraded provider be well, tells the workers so, and lets
// all jobs that went back come at once.
func (st *stage) recover(t *testing.T) {
	t.Helper()
	st.limping.degraded.Store(false)
	for i, w := range st.fleet {
		c, err := w.box.Circuit("model/limping")
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			c.Reset("the provider is well again")
		}
		eventually(t, "the worker has heard", func() bool { return c.Status().Phase == fusebox.Closed })
	}
	if _, err := st.queue.inspector.RunAllRetryTasks(st.name); err != nil {
		t.Fatal(err)
	}
}

// While a provider hangs, the jobs for it go back at once with the time that is
// left, use up no retry, hold nobody up, and are done when it is well again.
func TestDegradedProviderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.afterError = after(3 * never)
	st := begin(t, s)
	st.jobsOfWell.mustEnd(t)
	if most := s.workers * (5 + s.atOnce - 1); int(st.limping.hung.Load()) > most {
		t.Errorf("%d calls hung; %d would, were each worker to count its own five failures", st.limping.hung.Load(), most)
	}
	if info := st.rested(t); info.Retry != s.degraded || info.Archived != 0 {
		t.Errorf("%d jobs went back, %d were given up; want all %d and none", info.Retry, info.Archived, s.degraded)
	}
	jobs, err := st.queue.inspector.ListRetryTasks(s.name, asynq.PageSize(s.degraded))
	if err != nil {
		t.Fatal(err)
	}
	retries, soon := 0, 0
	for _, j := range jobs {
		retries += j.Retried
		if back := time.Until(j.NextProcessAt); back > never/2 && back < 2*never { // the cooldown, and what jobs are spread by
			soon++
		}
	}
	hung := int(st.limping.hung.Load())
	if _, failed := st.jobsOfLimping.counts(); retries != hung || failed != hung || soon != s.degraded-hung {
		t.Errorf("%d calls hung, and %d failed and used %d retries; %d jobs come back after the cooldown, want the others",
			hung, failed, retries, soon)
	}
	st.recover(t)
	st.jobsOfLimping.mustEnd(t)
	if info := st.rested(t); info.Size != 0 {
		t.Errorf("%d jobs are left", info.Size)
	}
}

// Without the guard every job for the provider that hangs holds a worker, before
// the last of the others is done.
func TestWithoutTheGuardEveryJobHolds(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.guard = false
	st := begin(t, s)
	st.jobsOfWell.mustEnd(t)
	hung, least := int(st.limping.hung.Load()), s.degraded-s.workers*s.atOnce
	if denied, _ := st.jobsOfLimping.counts(); hung < least || denied != 0 {
		t.Errorf("%d calls hung and %d jobs were denied; want at least %d and none", hung, denied, least)
	}
}

// The whole story by itself: the circuit opens, a probe closes it, and all jobs
// are done, those that failed and those that were denied.
func TestScenario(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.policy.Cooldown = fusebox.Cooldown{After: 100 * time.Millisecond}
	s.policy.Probe.Lease = 2 * time.Second // who is denied because of a probe comes back after it
	s.afterError = after(0)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := s.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r.hung == 0 || r.denied == 0 || r.healthyIn > r.allIn {
		t.Errorf("%+v", r)
	}
	queues, err := s.queues()
	if err != nil || len(queues) != 0 {
		t.Errorf("left behind: %v, error %v", queues, err)
	}
}

func (s scenario) queues() ([]string, error) {
	connection, err := asynq.ParseRedisURI(s.redis)
	if err != nil {
		return nil, err
	}
	inspector := asynq.NewInspector(connection)
	defer inspector.Close()
	return inspector.Queues()
}

// A job that has one call left is not given up because it was denied: asynq
// gives up a job without retries at any error.
func TestDenialLeavesTheLastCall(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.healthy, s.degraded, s.calls = 1, 1, 1
	s.workers = 1 // another one might not have heard yet
	s.policy.Trip = []fusebox.Trip{fusebox.Streak(1)}
	st := begin(t, s) // the first job: its one call fails, and opens the circuit
	if info := st.rested(t); info.Archived != 1 || st.limping.hung.Load() != 1 {
		t.Fatalf("%d calls, %d jobs given up; want one of each", st.limping.hung.Load(), info.Archived)
	}
	if err := st.queue.put(t.Context(), job{Provider: "limping", URL: st.limping.url(), Document: 2}, s.calls); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second job is denied", func() bool {
		denied, _ := st.jobsOfLimping.counts()
		return denied == 1
	})
	if info := st.rested(t); info.Archived != 1 || info.Retry != 1 {
		t.Fatalf("%d given up, %d went back; want the first and the second", info.Archived, info.Retry)
	}
	st.recover(t)
	st.jobsOfLimping.mustEnd(t)
}

// A job is given up after as many calls as it has.
func TestJobHasSoManyCalls(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.healthy, s.degraded, s.calls = 1, 1, 3
	s.afterError = after(0)
	st := begin(t, s)
	eventually(t, "the job is given up", func() bool { return st.rested(t).Archived == 1 })
	if calls := st.limping.hung.Load(); calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

// A payload that nobody can read is given up at once, and stops no worker.
func TestUnreadableJob(t *testing.T) {
	t.Parallel()
	s := small(t)
	s.healthy, s.degraded = 1, 1
	st := begin(t, s)
	task := asynq.NewTask("summarise", []byte("{"))
	if _, err := st.queue.client.EnqueueContext(t.Context(), task, asynq.Queue(s.name)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job is given up", func() bool { return st.rested(t).Archived == 1 })
}

func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		wrong func(*scenario)
	}{
		{"no jobs", func(s *scenario) { s.degraded = 0 }},
		{"no address", func(s *scenario) { s.redis = "127.0.0.1:6379" }},
		{"nobody listens", func(s *scenario) { s.redis = "redis://127.0.0.1:1/0" }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scenario{workers: 1, healthy: 1, degraded: 1, calls: 1}
			s.redis, s.name, s.policy = "redis://127.0.0.1:1/0", "example", fusebox.DefaultPolicy("model")
			test.wrong(&s)
			if _, err := s.run(t.Context()); err == nil {
				t.Error("no error")
			}
		})
	}
}

var command = regexp.MustCompile(`(?m)^go run \.([^#\n]*)`)

// The README's commands are ones that the program takes.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := command.FindAllStringSubmatch(string(text), -1)
	if len(commands) < 2 {
		t.Errorf("%d commands, want at least one with the guard and one without", len(commands))
	}
	for _, c := range commands {
		if _, err := parse(strings.Fields(c[1])); err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}
