package main

import (
	"strings"
	"testing"
)

// hostOf is the place of a host of its own, on the same store.
func hostOf(t *testing.T, store, worker, more string) *place {
	p := newPlace(t)
	p.env = append(p.env, "FUSEBOX_STORE="+store)
	p.write("fusebox.yaml", "worker: "+worker+"\n"+more)
	return p
}

// The commands ask and report for their host, and heed the file's quorum, also
// for a circuit that it does not name.
func TestI17OneShotsOfABadHost(t *testing.T) {
	t.Parallel()
	store := "file://" + t.TempDir()
	good, bad := hostOf(t, store, "good", "quorum: 2\n"), hostOf(t, store, "bad", "quorum: 2\n")
	good.must("record", "--circuit", "tool/x", "--outcome", "success")
	var said struct{ Phase, Host string }
	for range 3 {
		bad.must("record", "--circuit", "tool/x", "--outcome", "failure", "--json").decode(t, &said)
	}
	if said.Phase != "open" || said.Host != "bad" {
		t.Errorf("the bad host is told %+v, want that its own circuit is open", said)
	}
	if r := bad.run("run", "--circuit", "tool/x", "--", "true"); r.code != 75 {
		t.Errorf("run on the bad host: exit code %d, want 75: %s", r.code, r.stderr)
	}
	if r := bad.must("pick", "tool/x", "tool/y"); strings.TrimSpace(r.stdout) != "tool/y" {
		t.Errorf("pick on the bad host: %q", r.stdout)
	}
	if r := good.run("run", "--circuit", "tool/x", "--", "true"); r.code != 0 {
		t.Errorf("I17: run on the good host: exit code %d: %s", r.code, r.stderr)
	}
	if r := good.must("pick", "tool/x", "tool/y"); strings.TrimSpace(r.stdout) != "tool/x" {
		t.Errorf("I17: pick on the good host: %q", r.stdout)
	}
	for _, command := range []string{"why", "events"} {
		if r := good.must(command, "tool/x"); !strings.Contains(r.stdout, "closed → open for bad alone: 3 failures in a row") {
			t.Errorf("%s: %s", command, r.stdout)
		}
	}
	if r := good.must("status", "tool/x"); !strings.Contains(r.stdout, "for bad alone") {
		t.Errorf("status: %s", r.stdout)
	}
}
