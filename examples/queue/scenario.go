package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// scenario is what happens: one provider is well, another limps until all jobs
// for the first are done.
type scenario struct {
	settings
	workers  int
	healthy  int           // jobs for the provider that is well
	degraded int           // jobs for the one that limps
	calls    int           // that a job has before it is given up
	answers  time.Duration // how long a good answer takes
	hangs    time.Duration // how long a bad one takes
}

// report is what came of it.
type report struct {
	healthyIn time.Duration // until all jobs for the provider that is well were done
	hung      int           // calls that hung at the other one until then
	denied    int           // jobs that came back at once until then
	allIn     time.Duration // until all jobs were done
}

// run lets the scenario happen. The queue is gone when it returns.
func (s scenario) run(ctx context.Context) (r report, err error) {
	begun := time.Now()
	st, err := s.begin(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if err := st.jobsOfWell.wait(ctx); err != nil {
		return r, err
	}
	r.healthyIn, r.hung = time.Since(begun), int(st.limping.hung.Load())
	r.denied, _ = st.jobsOfLimping.counts()
	st.limping.degraded.Store(false)
	err = st.jobsOfLimping.wait(ctx)
	r.allIn = time.Since(begun)
	return r, err
}

// stage is a scenario that goes on: providers, jobs, workers.
type stage struct {
	scenario
	well, limping             *provider
	jobsOfWell, jobsOfLimping *group
	queue                     *queue
	fleet                     []*worker
}

// begin puts the jobs into the queue and then starts the workers. The stage must
// be closed.
func (s scenario) begin(ctx context.Context) (*stage, error) {
	if s.healthy < 1 || s.degraded < 1 {
		return nil, errors.New("want at least one job for each of the two providers")
	}
	st := &stage{
		scenario:      s,
		well:          &provider{name: "well", answers: s.answers},
		limping:       &provider{name: "limping", answers: s.answers, hangs: s.hangs},
		jobsOfWell:    newGroup(s.healthy),
		jobsOfLimping: newGroup(s.degraded),
	}
	st.limping.degraded.Store(true)
	if err := st.start(ctx); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

func (st *stage) start(ctx context.Context) (err error) {
	for _, p := range []*provider{st.well, st.limping} {
		if err := p.start(); err != nil {
			return err
		}
	}
	if st.queue, err = openQueue(st.redis, st.name); err != nil {
		return err
	}
	if err := st.produce(ctx); err != nil {
		return err
	}
	groups := map[string]*group{st.well.name: st.jobsOfWell, st.limping.name: st.jobsOfLimping}
	st.ended = func(j job, err error) { groups[j.Provider].ended(j, err) }
	for i := range st.workers {
		w, err := startWorker(fmt.Sprintf("worker-%d", i+1), st.settings)
		if err != nil {
			return err
		}
		st.fleet = append(st.fleet, w)
	}
	return nil
}

// close stops the workers, and removes the queue with what is left in it.
func (st *stage) close() error {
	errs := make([]error, len(st.fleet))
	var all sync.WaitGroup
	for i, w := range st.fleet {
		all.Go(func() { errs[i] = w.stop() })
	}
	all.Wait()
	if st.queue != nil {
		errs = append(errs, st.queue.close())
	}
	return errors.Join(append(errs, st.well.stop(), st.limping.stop())...)
}

// produce puts the jobs into the queue, evenly mixed: the first is for the
// degraded provider, the last for the one that is well.
func (st *stage) produce(ctx context.Context) error {
	total, put := st.healthy+st.degraded, 0
	for i := range total {
		p := st.well
		if put*total < st.degraded*(i+1) {
			p = st.limping
			put++
		}
		if err := st.queue.put(ctx, job{Provider: p.name, URL: p.url(), Document: i}, st.calls); err != nil {
			return err
		}
	}
	return nil
}
