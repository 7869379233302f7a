package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func announced(id, name string, circuits ...string) fusebox.Worker {
	return fusebox.Worker{ID: id, Name: name, Policies: []fusebox.WorkerPolicy{{Policy: fusebox.DefaultPolicy("tool"), Circuits: circuits, Count: len(circuits)}}}
}

// Replicas are those that are there, and what reports without announcing itself:
// not the processes that have ended since, which would multiply with every
// restart.
func TestFleetCountsWhoIsThere(t *testing.T) {
	at := time.Now()
	f := newFleet([]fusebox.Worker{announced("1", "web:7", "tool/a"), announced("2", "web:7", "tool/a"), announced("3", "api:9", "tool/b")})
	f.reported("tool/a", map[string]time.Time{"web:7": at, "web:6": at, "host": at.Add(-time.Minute), "host:x": at})
	f.reported("tool/b", map[string]time.Time{"host": at, "web:5": at})
	f.reported("tool/c", map[string]time.Time{"api:9": at})
	for circuit, want := range map[string]int{"tool/a": 4, "tool/b": 2, "tool/c": 1, "tool/d": 0} {
		if got := f.count(circuit); got != want {
			t.Errorf("%s: %d workers, want %d", circuit, got, want)
		}
	}
	var names []string
	for _, w := range f.workers {
		names = append(names, w.ID+" "+w.Name)
		if w.Name == "host" && !w.Seen.Equal(at) {
			t.Errorf("host was seen at %v, want its newest evidence, %v", w.Seen, at)
		}
	}
	if want := []string{"3 api:9", " host", " host:x", "1 web:7", "2 web:7"}; !reflect.DeepEqual(names, want) {
		t.Errorf("workers %q, want %q", names, want)
	}
}

func TestPresenceWords(t *testing.T) {
	now := time.Now()
	for want, w := range map[string]fusebox.Worker{
		"reports": {Name: "host", Seen: now.Add(-time.Hour)},
		"there":   {ID: "1", Seen: now.Add(-12 * time.Second)},
		"silent: it has ended, or lost the store":                  {ID: "1", Seen: now.Add(-30 * time.Second)},
		"local since " + clock(now.Add(-time.Second)):              {ID: "1", Seen: now, LocalSince: now.Add(-time.Second)},
		"there; was local for 14s until " + clock(now.Add(-1*1e9)): {ID: "1", Seen: now, LocalSince: now.Add(-15 * time.Second), LocalUntil: now.Add(-time.Second)},
	} {
		if got := presenceWords(&w, now); got.text != want {
			t.Errorf("%+v is %q, want %q", w, got.text, want)
		}
	}
}

func TestThresholdsInWords(t *testing.T) {
	p := fusebox.DefaultPolicy("tool")
	for _, test := range []struct {
		name     string
		workers  int
		machines bool
		want     string
	}{
		{"a fleet", 10, true, "effective threshold: 3 failures over the 10 workers that share the store; were each to count alone, 10 times 3: 30"},
		{"one of a fleet", 1, true, "effective threshold: 3 failures over all workers that share the store"},
		{"a machine", 4, false, "effective threshold: 3 failures over the 4 workers of this machine that share the store; were each to count alone, 4 times 3: 12; times the machines, as each has a store of its own"},
		{"alone", 0, false, "effective threshold: 3 failures; times the machines, as each has a store of its own"},
	} {
		if got := thresholdsOf(p, test.workers, test.machines).words(); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
	}
	p.Trip = nil
	if got := thresholdsOf(p, 4, true).words(); got != "" {
		t.Errorf("nothing is counted, and it says %q", got)
	}
}

func TestDifferencesOfPolicies(t *testing.T) {
	kept := fusebox.DefaultPolicy("model")
	for name, test := range map[string]struct {
		change func(*fusebox.Policy)
		want   []string
	}{
		"none":     {func(p *fusebox.Policy) { p.Loaded = time.Now() }, nil},
		"trip":     {func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{fusebox.Streak(7)} }, []string{"trip is [streak=7], not [count=5,of=10,within=1m; streak=5]"}},
		"off":      {func(p *fusebox.Policy) { p.Trip = []fusebox.Trip{} }, []string{"trip is [], not [count=5,of=10,within=1m; streak=5]"}},
		"several":  {func(p *fusebox.Policy) { p.Cooldown.After, p.Probe.Attempts = time.Minute, 2 }, []string{"cooldown.after is 1m, not 30s", "probe.attempts is 2, not 1"}},
		"unset":    {func(p *fusebox.Policy) { p.Cooldown.Max = 0 }, []string{"cooldown.max is unset, not 2m"}},
		"distinct": {func(p *fusebox.Policy) { p.Distinct = true }, []string{"distinct is true, not unset"}},
	} {
		p := kept
		test.change(&p)
		if got := differences(p, kept); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestProbersAreNamed(t *testing.T) {
	now := time.Now()
	s := fusebox.Status{Phase: fusebox.HalfOpen, Probes: []fusebox.Lease{{Worker: "web-1:7", Until: now.Add(12 * time.Second)}, {}}}
	if got, want := phaseWords(&s, now), "half-open, probed by web-1:7 (12s left), somebody"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A worker's own view showed a circuit that is open for its host alone as open for all.
func TestAHostsOwnCircuitIsNamedInItsOwnView(t *testing.T) {
	s := fusebox.Status{Circuit: "model/a", Phase: fusebox.Open, Health: fusebox.Down, RetryAfter: 30 * time.Second, Host: "web-2"}
	if got, want := phaseWords(&s, time.Now()), "open for 30s, for web-2 alone"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

// Who holds the probe, and until when, shows wherever circuits are shown.
func TestStatusNamesTheProber(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("fusebox.yaml", "worker: laptop\n")
	p.must("record", "--circuit", "session/a", "--outcome", "failure", "--class", "auth", "--cooldown", "1ms", "--jitter", "0")
	eventually(t, "the probe is taken", func() bool { return p.run("pick", "--lease", "30m", "session/a").code == exitOK })
	for _, command := range []string{"status", "doctor"} {
		if r := p.run(command); !strings.Contains(r.stdout, "half-open, probed by laptop (") {
			t.Errorf("%s: %s", command, r.stdout)
		}
	}
	probes := p.statusOf("session/a")["probes"].([]any)
	if lease := probes[0].(map[string]any); len(probes) != 1 || lease["worker"] != "laptop" || lease["until"] == nil {
		t.Errorf("as JSON %v", probes)
	}
}

// A process shows as a worker on a directory too, with its policies, until it ends.
func TestDoctorListsTheWorkersOfAMachine(t *testing.T) {
	t.Parallel()
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, "worker: laptop")
	s := p.up()
	s.ask("m")
	var got doctorReport
	eventually(t, "it is there", func() bool {
		got = doctorReport{}
		p.must("doctor", "--json").decode(t, &got)
		return len(got.Workers) == 1 && len(got.Workers[0].Policies) == 1
	})
	if w := got.Workers[0]; !strings.HasPrefix(w.Name, "laptop:") || w.Policies[0].Circuits[0] != "model/only/m" || !got.Store.Answers ||
		got.Store.Address != "file://"+p.storeDir() {
		t.Errorf("want laptop with its circuit, have %+v", got)
	}
	if r := p.must("doctor"); !strings.Contains(r.stdout, "store file://"+p.storeDir()+" answers in ") || !strings.Contains(r.stdout, "\nlaptop:") {
		t.Errorf("in words: %s", r.stdout)
	}
	s.stop()
	got = doctorReport{}
	p.must("doctor", "--json").decode(t, &got)
	if len(got.Workers) != 0 {
		t.Errorf("it has ended, and still there is %+v", got.Workers)
	}
}
