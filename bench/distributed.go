package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// redsyncStore is what gobreaker's distributed circuit keeps its state in: a key
// and a lock by redsync, as the library's own store has them, which cannot be
// got as a module. A process's calls take the lock in turn, since those of one
// redsync.Mutex must.
type redsyncStore struct {
	client *redis.Client
	locks  *redsync.Redsync
	turn   sync.Mutex
	held   *redsync.Mutex
}

func openRedsync(address string) *redsyncStore {
	client := redis.NewClient(&redis.Options{Addr: address})
	return &redsyncStore{client: client, locks: redsync.New(goredis.NewPool(client))}
}

func (s *redsyncStore) Lock(name string) error {
	s.turn.Lock()
	m := s.locks.NewMutex(name, redsync.WithExpiry(5*time.Second))
	if err := m.Lock(); err != nil {
		s.turn.Unlock()
		return err
	}
	s.held = m
	return nil
}

func (s *redsyncStore) Unlock(string) error {
	m := s.held
	s.held = nil
	defer s.turn.Unlock()
	_, err := m.Unlock()
	return err
}

func (s *redsyncStore) GetData(name string) ([]byte, error) {
	return s.client.Get(context.Background(), name).Bytes()
}

func (s *redsyncStore) SetData(name string, data []byte) error {
	return s.client.Set(context.Background(), name, data, 0).Err()
}

// distributedCircuit is gobreaker's, shared through a store.
type distributedCircuit struct {
	*gobreaker.DistributedCircuitBreaker[int]
	store *redsyncStore
}

func openDistributed(address string, s gobreaker.Settings) (*distributedCircuit, error) {
	s.Name = fleetCircuit
	store := openRedsync(address)
	b, err := gobreaker.NewDistributedCircuitBreaker[int](store, s)
	if err != nil {
		store.client.Close()
		return nil, err
	}
	return &distributedCircuit{b, store}, nil
}

func (d *distributedCircuit) guard(call func(probe bool) error) error {
	_, err := d.Execute(func() (int, error) {
		return 0, call(d.CircuitBreaker.State() == gobreaker.StateHalfOpen)
	})
	return err
}

func (d *distributedCircuit) flush() error { return nil } // a call reports before it ends

func (d *distributedCircuit) counted() (int, error) {
	data, err := d.store.GetData("gobreaker:state:" + d.Name())
	if err != nil {
		return 0, err
	}
	var s gobreaker.SharedState
	err = json.Unmarshal(data, &s)
	return int(s.Counts.TotalFailures), err
}

func (d *distributedCircuit) close() { d.store.client.Close() }
