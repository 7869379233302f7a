package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/redisstore"
	"github.com/fusebox-go/fusebox/transport"
)

// job is one message of the queue: a document that a provider is to summarise.
type job struct {
	Provider string `json:"provider"`
	URL      string `json:"url"`
	Document int    `json:"document"`
}

// settings are what the workers of a fleet have in common.
type settings struct {
	redis      string               // where the queue and the circuits are: redis://host:port/database
	name       string               // of the queue, and the prefix of the circuits' keys
	policy     fusebox.Policy       // of each provider's circuit
	guard      bool                 // false = circuits look on, and refuse nothing
	limit      time.Duration        // of one call
	atOnce     int                  // jobs that a worker has under way
	look       time.Duration        // how often asynq looks for jobs that are due
	afterError asynq.RetryDelayFunc // when a job comes back whose call failed
	ended      func(job, error)     // hears how each attempt at a job ended
}

// worker takes jobs from the queue and calls the provider of each, under the
// circuit that all workers share for it.
type worker struct {
	settings
	client http.Client
	store  *redisstore.Store
	box    *fusebox.Box
	server *asynq.Server
}

// startWorker begins to take jobs. The worker must be stopped.
func startWorker(name string, s settings) (*worker, error) {
	connection, err := asynq.ParseRedisURI(s.redis)
	if err != nil {
		return nil, err
	}
	store, err := redisstore.Open(redisstore.Config{URL: s.redis + "?prefix=" + s.name + ":", Keep: time.Hour})
	if err != nil {
		return nil, err
	}
	box, err := fusebox.New(fusebox.Config{
		Policy:  func(string) fusebox.Policy { return s.policy },
		Store:   store,
		Report:  500 * time.Millisecond, // successes must keep up with failures where a fleet counts both
		Worker:  name,
		Observe: !s.guard,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	w := &worker{settings: s, client: http.Client{Timeout: s.limit}, store: store, box: box}
	w.server = asynq.NewServer(connection, asynq.Config{
		Concurrency:              s.atOnce,
		Queues:                   map[string]int{s.name: 1},
		DelayedTaskCheckInterval: s.look,
		IsFailure:                isFailure,
		RetryDelayFunc:           s.delay,
		LogLevel:                 asynq.ErrorLevel,
	})
	if err := w.server.Start(asynq.HandlerFunc(w.work)); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// stop lets the jobs under way end, and brings what the circuits counted to the store.
func (w *worker) stop() error {
	w.server.Shutdown()
	return w.close()
}

func (w *worker) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(w.box.Close(ctx), w.store.Close())
}

// work does one job.
func (w *worker) work(ctx context.Context, task *asynq.Task) error {
	var j job
	if err := json.Unmarshal(task.Payload(), &j); err != nil {
		return fmt.Errorf("no job: %w: %w", err, asynq.SkipRetry)
	}
	circuit, err := w.box.Circuit("model/" + j.Provider)
	if err != nil {
		return err
	}
	_, err = fusebox.Do(ctx, circuit, func(ctx context.Context) (string, error) { return w.summarise(ctx, j) })
	w.ended(j, err)
	if err != nil && isFailure(err) && isLastCall(ctx) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// summarise calls the provider. Its error says what the answer means: a 503 is
// the provider's failure, a 400 is the document's.
func (w *worker) summarise(ctx context.Context, j job) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/summaries/%d", j.URL, j.Document), nil)
	if err != nil {
		return "", err
	}
	answer, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if result := transport.Classify(answer); result.Outcome != fusebox.Success {
		return "", &fusebox.ResultError{Result: result}
	}
	summary, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return string(summary), err
}

// isFailure tells asynq that a denial is none: the job was not tried, so it uses
// up no retry and does not count among the queue's errors.
func isFailure(err error) bool { return fusebox.AsDenial(err) == nil }

// delay tells asynq when a job comes back. One that was denied comes back when
// its provider is worth asking, and not at the very moment at which all do.
func (s *settings) delay(retried int, err error, task *asynq.Task) time.Duration {
	denial := fusebox.AsDenial(err)
	if denial == nil {
		return s.afterError(retried, err, task)
	}
	wait := denial.RetryAfter() + time.Second // asynq cuts times down to whole seconds: nobody is early
	return wait + rand.N(wait/5)
}

// isLastCall reports whether a job has used up its calls, of which it has as many
// as MaxRetry says. asynq would allow one more; but a job whose retries are all
// used it gives up at any error, a denial too. So the last one is never used.
func isLastCall(ctx context.Context) bool {
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return retried+1 >= most
}
