package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/gateway"
)

// watchEvery is how often the configuration file is looked at for a change.
const watchEvery = time.Second

// current is a gateway that can be replaced while it serves: requests under way
// end with the one that took them.
type current struct {
	atomic.Pointer[gateway.Gateway]
}

func (c *current) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.Load().ServeHTTP(w, r) }

// fileVersion tells one state of a file from another.
type fileVersion struct {
	changed time.Time
	size    int64
}

func versionOf(path string) (fileVersion, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileVersion{}, err
	}
	return fileVersion{info.ModTime(), info.Size()}, nil
}

// watchConfig reads the configuration anew when its file has changed and then
// stood still for a while, so that no half of it is read, and at each hangup.
// It returns when ctx ends.
func (s *server) watchConfig(ctx context.Context, hangup <-chan os.Signal) {
	path := s.config.File
	if path == "" {
		return
	}
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	taken, seen := s.read, s.read
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if now, err := versionOf(path); err == nil {
				taken, seen = now, now
			}
			s.reload(path)
		case <-look.C:
			now, err := versionOf(path)
			if err != nil { // it is being replaced
				continue
			}
			if still := now == seen; still && now != taken {
				taken = now
				s.reload(path)
			}
			seen = now
		}
	}
}

// reload takes up a changed configuration, and says so or why not.
func (s *server) reload(path string) {
	if err := s.takeUp(path); err != nil {
		fmt.Fprintf(s.a.stderr, "fusebox: the configuration stays as it was: %v\n", err)
		return
	}
	fmt.Fprintf(s.a.stderr, "fusebox: %s was read anew and holds\n", path)
}

// takeUp puts a changed configuration to work: its backends, routes, retries
// and policies. All of it or, where anything is wrong, nothing. What belongs to
// the process stays: listeners, store, worker, mode and thrash.
func (s *server) takeUp(path string) error {
	next, err := config.Load(path)
	if err != nil {
		return err
	}
	s.a.stored(next)
	if len(next.Backends) == 0 {
		return noBackends(path)
	}
	next.Gateway, next.Admin, next.Mode = s.config.Gateway, s.config.Admin, s.config.Mode
	if err := missingSecrets(next); err != nil {
		return err
	}
	made, err := s.a.newGateway(next, s.box, s.observer, getter)
	if err != nil {
		return err
	}
	if err := s.box.SetPolicies(next.Policy); err != nil {
		made.Close()
		return err
	}
	s.stopRun()
	made.TakeOver(s.gateway.Load())
	s.gateway.Swap(made).Close()
	s.run(made)
	return nil
}
