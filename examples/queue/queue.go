package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
)

// queue is the producer's end, and what it looks at the queue with.
type queue struct {
	name      string
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openQueue(redis, name string) (*queue, error) {
	connection, err := asynq.ParseRedisURI(redis)
	if err != nil {
		return nil, err
	}
	q := &queue{name: name, client: asynq.NewClient(connection), inspector: asynq.NewInspector(connection)}
	if err := q.client.Ping(); err != nil {
		return nil, errors.Join(fmt.Errorf("want a Redis or Valkey at %s, start one or name another with -redis: %w", redis, err),
			q.client.Close(), q.inspector.Close())
	}
	return q, nil
}

// put adds a job, which is given up after so many calls.
func (q *queue) put(ctx context.Context, j job, calls int) error {
	payload, err := json.Marshal(j)
	if err != nil {
		return err
	}
	_, err = q.client.EnqueueContext(ctx, asynq.NewTask("summarise", payload), asynq.Queue(q.name), asynq.MaxRetry(calls))
	return err
}

// close removes the queue with what is left in it.
func (q *queue) close() error {
	err := q.inspector.DeleteQueue(q.name, true)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = nil
	}
	return errors.Join(err, q.client.Close(), q.inspector.Close())
}
