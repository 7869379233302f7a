package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/filestore"
	"github.com/fusebox-go/fusebox/redisstore"
)

// openers open a store by the scheme of its address.
var openers = map[string]func(ctx context.Context, a *app, c *config.Config, address config.StoreURL) (fusebox.Store, error){
	"file":   openFileStore,
	"redis":  openRedisStore,
	"rediss": openRedisStore,
}

func openFileStore(_ context.Context, _ *app, c *config.Config, address config.StoreURL) (fusebox.Store, error) {
	store, err := filestore.Open(filestore.Config{Dir: address.Dir(), Keep: c.Keep, SyncTransitions: c.Sync == config.SyncTransitions})
	if err != nil {
		return nil, fmt.Errorf("%w; another directory can be given with --store file:///dir", err)
	}
	return store, nil
}

func openRedisStore(_ context.Context, _ *app, c *config.Config, address config.StoreURL) (fusebox.Store, error) {
	return redisstore.Open(redisstore.Config{URL: address.URL(), Keep: c.Keep})
}

// reportEvery is how often successes are reported to a store; 0 = as built in.
// Where a fleet counts the failures of all its workers, successes must keep up
// with them, or a share of failures would look larger than it is.
func reportEvery(store fusebox.Store) time.Duration {
	if _, fleet := store.(*redisstore.Store); fleet {
		return 500 * time.Millisecond
	}
	return 0
}

// openStore opens the store that the flags, the environment or the
// configuration name. The caller closes it.
func (a *app) openStore(ctx context.Context) (fusebox.Store, error) {
	c, err := a.config()
	if err != nil {
		return nil, err
	}
	address, err := a.storeAddress(c)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(address.URL())
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", address, err)
	}
	return openers[parsed.Scheme](ctx, a, c, address)
}

// sharesMachines reports whether the store is one that several machines use.
func (a *app) sharesMachines(c *config.Config) (bool, error) {
	address, err := a.storeAddress(c)
	return address.Shared(), err
}

// storeAddress is where circuits are kept: what --store says, else
// FUSEBOX_STORE, else the configuration, else the default.
func (a *app) storeAddress(c *config.Config) (config.StoreURL, error) {
	for _, given := range []struct{ name, value string }{{"--store", a.storeURL}, {"FUSEBOX_STORE", os.Getenv("FUSEBOX_STORE")}} {
		if given.value == "" {
			continue
		}
		address, err := config.ParseStore(given.value)
		if err != nil {
			return address, usagef("%s: %w", given.name, err)
		}
		return address, nil
	}
	address := c.Store
	if address.IsZero() {
		address = config.DefaultStore()
	}
	if address.IsZero() {
		return address, errors.New("there is no home directory to keep circuits in: set XDG_STATE_HOME, or give --store file:///dir")
	}
	return address, nil
}
