package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// until waits for a condition that the program brings about.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// A changed file is taken up whole: another backend, another policy; what is
// known of the circuits stays. A bad one changes nothing, and says why.
func TestUpTakesUpAChangedFile(t *testing.T) {
	first, second := newUpstream(t), newUpstream(t)
	serve := func(u *upstream, streak int) string {
		return fmt.Sprintf("%scircuits: {\"model/*\": {trip: [{streak: %d}], cooldown: {after: 1h}}}\n"+
			"backends: {only: {url: \"%s/v1\", dialect: openai}}\nroutes: [{match: \"*\", backends: [only]}]\n", oneAttempt, streak, u.URL)
	}
	p := newPlace(t)
	path := p.write("fusebox.yaml", serve(first, 5))
	s := p.up()
	p.must("hold", "open", "model/only/broken", "--reason", "bad release")
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("the first backend answered %d %s", a.status, a.body)
	}
	first.Close()

	p.write("fusebox.yaml", "backends: {only: {url: nonsense}}\n")
	until(t, "the bad file to be seen", func() bool { return strings.Contains(s.stderr.String(), "the configuration stays as it was") })
	if said := s.stderr.String(); !strings.Contains(said, path+":1:23") && !strings.Contains(said, "fusebox.yaml:1:") {
		t.Errorf("it does not say where: %s", said)
	}
	if a := s.ask("m"); a.status != http.StatusBadGateway {
		t.Fatalf("under the old configuration the first backend is gone; the answer is %d %s", a.status, a.body)
	}

	p.write("fusebox.yaml", serve(second, 2))
	until(t, "the good file to hold", func() bool { return strings.Contains(s.stderr.String(), "was read anew and holds") })
	if a := s.ask("m"); a.status != http.StatusOK {
		t.Fatalf("the second backend answered %d %s", a.status, a.body)
	}
	if a := s.ask("broken"); a.status != http.StatusServiceUnavailable {
		t.Fatalf("a circuit that is held open answered %d %s", a.status, a.body)
	}
	second.Close()
	for range 2 { // by the new policy that opens it
		if a := s.ask("m"); a.status != http.StatusBadGateway {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	until(t, "two failures to open the circuit by the new policy", func() bool {
		return strings.Contains(p.must("status", "model/only/m").stdout, "open for")
	})
	if code := s.stop(); code != exitOK {
		t.Errorf("exit code %d: %s", code, s.stderr)
	}
}
