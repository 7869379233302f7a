//go:build unix

package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func TestUpReadsItsFileAnewOnSIGHUP(t *testing.T) {
	p := newPlace(t)
	p.serveOne(newUpstream(t), "")
	s := p.up()
	s.interrupt(syscall.SIGHUP)
	until(t, "the file to be read", func() bool { return strings.Contains(s.stderr.String(), "was read anew and holds") })
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
}
