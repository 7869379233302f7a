package main

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/fusebox-go/fusebox/config"
)

// config returns the configuration: the file that --config names, else the one
// that is found, else what is built in. It is read once.
func (a *app) config() (*config.Config, error) {
	if a.loaded != nil {
		return a.loaded, nil
	}
	path := a.configFile
	if path == "" {
		found, ok := config.Find()
		if !ok {
			a.loaded = a.stored(config.Default())
			return a.loaded, nil
		}
		path = found
	}
	c, err := config.Load(path)
	if err != nil {
		return nil, &exitError{exitConfig, err}
	}
	a.loaded = a.stored(c)
	return c, nil
}

// stored has the configuration say where circuits are kept, whoever said so:
// policies depend on whether that is a store for many machines.
func (a *app) stored(c *config.Config) *config.Config {
	if address, err := a.storeAddress(c); err == nil { // else opening it will tell
		c.Store = address
	}
	return c
}

// servedConfig is the configuration with the backends that are served: those
// of the file or, without one, those that are found. Only ask sends something
// to find them.
func (a *app) servedConfig(ask bool) (*config.Config, error) {
	c, err := a.config()
	if err != nil || c.File != "" {
		return c, err
	}
	a.loaded = a.stored(config.Discover(os.Getenv, func(url string) bool { return ask && reachable(url) }))
	return a.loaded, nil
}

// reachable reports whether a server answers at a URL, soon.
func reachable(url string) bool {
	client := &http.Client{Timeout: 500 * time.Millisecond}
	answer, err := client.Get(url)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return true
}

// missingSecrets returns the secrets that the configuration names and that
// cannot be had, as one error.
func missingSecrets(c *config.Config) error {
	missing := c.MissingSecrets()
	if len(missing) == 0 {
		return nil
	}
	return &exitError{exitConfig, missing}
}

// workerName is who reports: the configured name, or the host's.
func workerName(c *config.Config) string {
	if c.Worker != "" {
		return c.Worker
	}
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// configErrors takes the mistakes of a file apart; nil if err is none of those.
func configErrors(err error) config.Errors {
	var list config.Errors
	if errors.As(err, &list) {
		return list
	}
	return nil
}
