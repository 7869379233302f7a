package main

import (
	"sync"
	"time"

	"github.com/fusebox-go/fusebox/config"
)

// secretAge is how long a secret is used before it is read again, so that a
// renewed one is taken up.
const secretAge = time.Second

// secret is a key or a token at work. One that is gone stays what it was: a
// token that vanishes must not open the door.
type secret struct {
	from config.Secret

	mu    sync.Mutex
	value string
	read  time.Time
}

// newSecret reads the secret, which must be there.
func newSecret(from config.Secret) (*secret, error) {
	value, err := from.Value()
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	return &secret{from: from, value: value, read: time.Now()}, nil
}

// get returns the secret. It is safe for concurrent use.
func (s *secret) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.read) >= secretAge {
		if value, err := s.from.Value(); err == nil {
			s.value = value
		}
		s.read = time.Now()
	}
	return s.value
}

// secretReader makes what reads a secret; nil where there is none.
type secretReader func(config.Secret) (func() string, error)

// noSecrets is for a gateway that asks nobody: secrets have names and no value.
func noSecrets(from config.Secret) (func() string, error) {
	if from.IsZero() {
		return nil, nil
	}
	return func() string { return "" }, nil
}

// getter returns what reads the secret; nil where there is none.
func getter(from config.Secret) (func() string, error) {
	if from.IsZero() {
		return nil, nil
	}
	s, err := newSecret(from)
	if err != nil {
		return nil, err
	}
	return s.get, nil
}
