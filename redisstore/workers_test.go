//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// As many workers are kept as are listed; those whose time is over make room
// for new ones, and who is there already comes again.
func TestWorkersAreBounded(t *testing.T) {
	server := startServer(t)
	s, err := Open(Config{URL: server.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	field := func(i, until int64) []string {
		return []string{fmt.Sprint("w", i), fmt.Sprintf(`%d %d {"id":"w%d","worker":"w"}`, until-60_000, until, i)}
	}
	now := time.Now().UnixMilli()
	command := []string{"HSET", "fusebox:workers"}
	for i := range int64(fusebox.MaxWorkers) {
		command = append(command, field(i, now+60_000)...)
	}
	command = append(command, "torn", "12 {")
	if err := server.do(command...).Error(); err != nil {
		t.Fatal(err)
	}
	if there, err := s.Workers(t.Context()); err != nil || len(there) != fusebox.MaxWorkers {
		t.Errorf("%d are there, %v; what cannot be read is left out", len(there), err)
	}
	w := fusebox.Worker{ID: "new"}
	if err := s.Announce(t.Context(), w, time.Minute); err == nil || !strings.Contains(err.Error(), "FULL") {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Announce(t.Context(), fusebox.Worker{ID: "w5"}, time.Minute); err != nil {
		t.Errorf("one of them, again: %v", err)
	}
	if err := server.do(append([]string{"HSET", "fusebox:workers"}, field(7, now-1)...)...).Error(); err != nil {
		t.Fatal(err)
	}
	if err := s.Announce(t.Context(), w, time.Minute); err != nil {
		t.Errorf("one of them is gone: %v", err)
	}
	if n, err := server.do("HLEN", "fusebox:workers").AsInt64(); err != nil || n != fusebox.MaxWorkers {
		t.Errorf("%d fields are kept, %v", n, err) // what was torn is gone, too
	}
}

// A server's data outlive nobody who looks: the last worker's end ends the key.
func TestWorkersKeyExpires(t *testing.T) {
	server := startServer(t)
	s, err := Open(Config{URL: server.url() + "?prefix=team:"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, ttl := range []time.Duration{time.Hour, time.Second} { // the longest counts
		if err := s.Announce(t.Context(), fusebox.Worker{ID: ttl.String()}, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := server.do("PTTL", "team:workers").AsInt64(); err != nil || left < 3_000_000 || left > 3_600_000 {
		t.Errorf("the key ends in %d ms, %v; want an hour", left, err)
	}
}

// Boxes on a real server tell who they are, what they use and by what policy,
// until they are closed.
func TestBoxesAnnounceThemselves(t *testing.T) {
	server := startServer(t)
	var boxes []*fusebox.Box
	for _, name := range []string{"web-1", "web-2"} {
		s, err := Open(Config{URL: server.url()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		box, err := fusebox.New(fusebox.Config{Store: s, Worker: name, Version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { box.Close(context.Background()) })
		if _, err := box.Circuit("model/a"); err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, box)
	}
	reader, err := Open(Config{URL: server.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var report fusebox.Report
	eventually(t, "both are there", func() bool {
		report, err = fusebox.ReadReport(t.Context(), reader)
		return err == nil && len(report.Workers) == 2
	})
	want := fusebox.DefaultPolicy("model")
	want.Quorum = quorum
	for i, w := range report.Workers {
		p, uses := w.PolicyOf("model/a")
		if w.Name != fmt.Sprint("web-", i+1) || !uses || !p.Equal(want) || w.SilentAt(report.Store.Clock) {
			t.Errorf("worker %d: %+v", i, w)
		}
	}
	if !report.Store.Answers || report.Store.Latency <= 0 || report.Store.Address != server.url() {
		t.Errorf("the store: %+v", report.Store)
	}
	if err := boxes[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if there, err := reader.Workers(t.Context()); err != nil || len(there) != 1 || there[0].Name != "web-2" {
		t.Errorf("one has left: %+v, %v", there, err)
	}
}

// Whatever is in an address, none of it is shown but where the server is.
func TestAddressIsShownWithoutSecrets(t *testing.T) {
	for given, want := range map[string]string{
		"rediss://user:hunter2@h:7000/3":                     "rediss://h:7000/3",
		"redis://hunter2@h":                                  "redis://h",
		"redis://:hunter2@h/1?prefix=a%20b:&addr=other:7001": "redis://h/1?prefix=a+b:",
	} {
		s, err := Open(Config{URL: given})
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != want {
			t.Errorf("%s shows as %s, want %s", given, s, want)
		}
		s.Close()
	}
	for _, given := range []string{"redis://h?addr=user:hunter2@h2:7001", "http://hunter2@h", "http://h/?password=hunter2"} {
		if _, err := Open(Config{URL: given}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", given, err)
		}
	}
}
