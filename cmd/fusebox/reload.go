package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
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
	next, err := s.takeUp(path)
	if err != nil {
		fmt.Fprintf(s.a.stderr, "fusebox: the configuration stays as it was: %v\n", err)
		return
	}
	but := ""
	if stays := s.staying(next); len(stays) > 0 {
		but = ", but what it says of these holds only once fusebox is started anew: " + strings.Join(stays, ", ")
	}
	fmt.Fprintf(s.a.stderr, "fusebox: %s was read anew and holds%s\n", path, but)
}

// takeUp puts a changed configuration to work: its backends, routes, retries
// and policies. All of it or, where anything is wrong, nothing. What belongs to
// the process stays: listeners, store, worker, mode and thrash.
func (s *server) takeUp(path string) (*config.Config, error) {
	next, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	s.a.stored(next)
	if len(next.Backends) == 0 {
		return nil, noBackends(path)
	}
	if err := s.flags.onTopOf(next); err != nil {
		return nil, err
	}
	if err := missingSecrets(next); err != nil {
		return nil, err
	}
	served := *next
	served.Gateway = s.config.Gateway
	made, err := s.a.newGateway(&served, s.box, s.observer, getter)
	if err != nil {
		return nil, err
	}
	if err := s.box.SetPolicies(next.Policy); err != nil {
		made.Close()
		return nil, err
	}
	s.stopRun()
	made.TakeOver(s.gateway.Load())
	s.gateway.Swap(made).Close()
	s.run(made)
	s.forgiveKeys()
	return next, nil
}

// forgiveKeys closes what a refused credential has opened: whoever changed the
// configuration may have mended that, and no waiting would.
func (s *server) forgiveKeys() {
	for _, known := range s.box.Circuits() {
		if known.Phase == fusebox.Closed || known.LastClass != fusebox.ClassAuth {
			continue
		}
		if c, err := s.box.Circuit(known.Circuit); err == nil {
			c.Reset("the configuration was read anew")
		}
	}
}

// staying names what belongs to the process and a changed configuration has
// otherwise.
func (s *server) staying(next *config.Config) (names []string) {
	now := s.config
	for _, part := range []struct {
		name    string
		changed bool
	}{
		{"gateway", next.Gateway != now.Gateway},
		{"admin", next.Admin != now.Admin},
		{"store", next.Store != now.Store || next.Keep != now.Keep || next.Sync != now.Sync},
		{"worker", next.Worker != now.Worker},
		{"mode", next.Mode != now.Mode},
		{"thrash", !sameThrash(next, now)},
		{"unit, on_open and guard of circuits", !s.sameGuards(next)},
	} {
		if part.changed {
			names = append(names, part.name)
		}
	}
	return names
}

func sameThrash(a, b *config.Config) bool {
	x, y := a.Thrash, b.Thrash
	x.Texts, y.Texts = nil, nil // the same texts are others each time they are read
	return a.ThrashOff == b.ThrashOff && reflect.DeepEqual(x, y)
}

// sameGuards looks at the circuits that are known, and at what the
// configurations name.
func (s *server) sameGuards(next *config.Config) bool {
	names := slices.Concat(s.config.Patterns(), next.Patterns())
	for _, c := range s.box.Circuits() {
		names = append(names, c.Circuit)
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		return !reflect.DeepEqual(s.config.Guard(name), next.Guard(name))
	})
}
