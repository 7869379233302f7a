//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/redisstore"
)

// redisServer starts a redis-server without persistence on a free port and
// returns its host and port, and what ends it. The options come last.
func redisServer(t *testing.T, options ...string) (host string, kill func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(host)
	args := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}
	server := exec.Command("redis-server", append(args, options...)...)
	if err := server.Start(); err != nil {
		t.Fatalf("%v: scripts/install-test-deps.sh installs it", err)
	}
	kill = func() {
		if server.ProcessState == nil {
			server.Process.Kill()
			server.Wait()
		}
	}
	t.Cleanup(kill)
	for deadline := time.Now().Add(limit); ; {
		if c, err := net.Dial("tcp", host); err == nil {
			c.Close()
			return host, kill
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not listen")
		}
	}
}

// Several machines report to one Redis, and all see one circuit. A store that is
// gone is said within two seconds, without its password.
func TestFleetStore(t *testing.T) {
	t.Parallel()
	host, kill := redisServer(t)
	url := fmt.Sprintf("redis://default:hunter2@%s/3?prefix=team:", host)
	for i := range 5 {
		p := newPlace(t)
		p.env = append(p.env, "FUSEBOX_STORE="+url)
		var said struct{ Phase string }
		p.must("record", "--circuit", "model/a", "--outcome", "failure", "--json").decode(t, &said)
		if want := map[bool]string{true: "open", false: "closed"}[i == 4]; said.Phase != want {
			t.Errorf("after %d failures: %s, want %s", i+1, said.Phase, want)
		}
	}
	kill()
	p := newPlace(t)
	p.env = append(p.env, "FUSEBOX_STORE="+url)
	got := p.run("record", "--circuit", "model/a", "--outcome", "failure")
	if got.code != 1 || !strings.Contains(got.stderr, "not recorded") || !strings.Contains(got.stderr, "connection refused") || strings.Contains(got.stderr, "hunter2") {
		t.Errorf("exit code %d, said %q", got.code, got.stderr)
	}
}

// doctor and status show the fleet: the store and how fast it answers, who uses
// it, and whose policy is not the one that is kept, and how; and when the store is
// gone, that it is, and what that means. None of it shows a password.
func TestDoctorShowsTheFleet(t *testing.T) {
	t.Parallel()
	host, kill := redisServer(t)
	u := newUpstream(t)
	url := fmt.Sprintf("redis://default:hunter2@%s/3?prefix=team:", host)
	var places []*place
	var ups []*serving
	for i, streak := range []int{4, 4, 7} { // the last one was read last
		p := newPlace(t)
		p.env = append(p.env, "FUSEBOX_STORE="+url)
		p.serveOne(u, fmt.Sprintf("worker: web-%d\ncircuits: {model/*: {trip: [{streak: %d}]}}", i, streak))
		places = append(places, p)
		s := p.up()
		s.ask("m")
		s.circuits() // which brings its success, and its policy, to the store
		ups = append(ups, s)
	}
	p := places[2]
	var got doctorReport
	eventually(t, "all are there, with their policies", func() bool {
		got = doctorReport{}
		p.must("doctor", "--json").decode(t, &got)
		return len(got.Workers) == 3 && !slices.ContainsFunc(got.Workers, func(w fusebox.Worker) bool { return len(w.Policies) == 0 })
	})
	if s := got.Store; !s.Answers || s.Latency <= 0 || s.Address != "redis://"+host+"/3?prefix=team:" {
		t.Errorf("the store: %+v", s)
	}
	c := got.Circuits[0]
	if c.Workers != 3 || c.Effective != 7 || c.Unshared != 21 {
		t.Errorf("want threshold 7, 21 over the 3 were each to count alone, have %+v", c)
	}
	for i, d := range c.Differing {
		if !strings.HasPrefix(d.Worker, fmt.Sprintf("web-%d:", i)) || len(d.Fingerprint) != 8 || !slices.Equal(d.Differences, []string{"trip is [streak=4], not [streak=7]"}) {
			t.Errorf("it differs: %+v", d)
		}
	}
	r := p.must("doctor")
	for _, want := range []string{
		"store redis://" + host + "/3?prefix=team: answers in ", "\nweb-0:", "\nweb-2:",
		"model/only/m: 2 of 3 workers have another policy than the store keeps, which is ",
		": trip is [streak=4], not [streak=7]\n",
		"7 failures over the 3 workers that share the store; were each to count alone, 3 times 7: 21",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
	if len(c.Differing) != 2 || strings.Contains(r.stdout, "\n  web-2:") {
		t.Errorf("two differ, not the one that was read last: %s", r.stdout)
	}
	if r := p.must("status"); !strings.Contains(r.stdout, "answers in ") || !strings.Contains(r.stdout, "\nweb-1:") {
		t.Errorf("status: %s", r.stdout)
	}
	ups[1].stop() // it takes its leave
	got = doctorReport{}
	p.must("doctor", "--json").decode(t, &got)
	if len(got.Workers) != 2 || len(got.Circuits[0].Differing) != 1 || got.Circuits[0].Workers != 2 {
		t.Errorf("one has ended: %+v", got)
	}

	kill()
	for _, command := range [][]string{{"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}} {
		r := p.run(command...)
		words := []string{"does not answer: ", "each worker goes on by itself", "connection refused"}
		if len(command) > 1 {
			words = []string{`"answers":false`, "connection refused"}
		}
		for _, want := range words {
			if r.code != exitFailed || !strings.Contains(r.stdout, want) {
				t.Errorf("%q: exit code %d, want %q in %s", command, r.code, want, r.stdout)
			}
		}
		if strings.Contains(r.stdout+r.stderr, "hunter2") {
			t.Errorf("%q shows the password: %s%s", command, r.stdout, r.stderr)
		}
	}
	eventually(t, "a worker says since when it is local", func() bool {
		r := p.must("status", "--from", ups[0].admin)
		return strings.Contains(r.stdout, "local since ") && strings.Contains(r.stdout, "model/only/m") && strings.Contains(r.stdout, "does not answer")
	})
}

// The worker fleet's example, as it ships: what one replica sees stops the
// others, which have made no call yet, and go on when the store is gone.
func TestWorkerFleetExample(t *testing.T) {
	t.Parallel()
	host, kill := redisServer(t)
	u := newUpstream(t)
	example, err := os.ReadFile("../../examples/worker-fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("redis://127.0.0.1:6379/0", "redis://"+host+"/0", "https://api.example.com", u.URL).Replace(string(example))
	var fleet []*serving
	for range 3 {
		p := newPlace(t)
		p.env = append(p.env, "PROVIDER_API_KEY=sk-not-secret")
		p.write("fusebox.yaml", text)
		fleet = append(fleet, p.up())
	}
	for i, s := range fleet {
		// One that begins refuses until the others have given it its part of the limit.
		eventually(t, fmt.Sprintf("replica %d answers", i), func() bool { return s.ask("large").status == http.StatusOK })
		s.circuits() // which brings its success to the store: it must not come between the failures
	}
	u.do(answerBusy)
	// Another replica's success may still come between the failures, in the
	// store's order: replica 0 asks on until the circuit that all share is open,
	// and its last resort spent.
	eventually(t, "all replicas have heard", func() bool {
		refused := fleet[0].ask("large").status == http.StatusServiceUnavailable
		return refused && !slices.ContainsFunc(fleet, func(s *serving) bool {
			return s.circuits().find("model/provider/large").Phase != "open"
		})
	})
	calls := u.count()
	for i, s := range fleet {
		if a := s.ask("large"); a.status != http.StatusServiceUnavailable {
			t.Errorf("replica %d answered %d %s", i, a.status, a.body)
		}
	}
	if got := u.count(); got != calls {
		t.Errorf("%d more calls reached the provider", got-calls)
	}
	kill()
	u.do(nil)
	for i, s := range fleet {
		if a := s.ask("large"); a.status != http.StatusServiceUnavailable {
			t.Errorf("without the store replica %d answered %d: what was open must stay open", i, a.status)
		}
		if a := s.ask("small"); a.status != http.StatusOK {
			t.Errorf("without the store replica %d answered %d for another model", i, a.status)
		}
	}
}

// One machine's failures stop that machine alone, and every command says so.
func TestOneBadHostStopsAlone(t *testing.T) {
	t.Parallel()
	host, _ := redisServer(t)
	machine := func(worker string) *place {
		p := newPlace(t)
		p.write("fusebox.yaml", fmt.Sprintf("store: redis://%s/0\nworker: %s\n", host, worker))
		return p
	}
	good, bad := machine("web-1"), machine("web-2")
	good.must("record", "--circuit", "session/claude", "--outcome", "success", "--ms", "5")
	for range 3 {
		bad.must("record", "--circuit", "session/claude", "--outcome", "failure", "--ms", "5")
	}
	refused := bad.run("run", "--circuit", "session/claude", "--", "true")
	if refused.code != 75 || !strings.Contains(refused.stderr, "session/claude") {
		t.Errorf("the bad machine's session: exit code %d, said %q", refused.code, refused.stderr)
	}
	good.must("run", "--circuit", "session/claude", "--", "true")
	for _, command := range [][]string{{"status"}, {"events"}, {"why", "session/claude"}} {
		if said := good.must(command...).stdout; !strings.Contains(said, "for web-2 alone") {
			t.Errorf("%v does not say that the circuit is open for web-2 alone:\n%s", command, said)
		}
	}
	if said := good.must("why", "session/claude").stdout; !strings.Contains(said, "for web-2 alone it is open") {
		t.Errorf("why does not say first that it is open for web-2 alone:\n%s", said)
	}
	if said := good.run("doctor"); said.code != 1 {
		t.Errorf("doctor on the good machine: exit code %d, want 1: a host is refused", said.code)
	}
	if said := good.run("pick", "session/claude"); said.code != 0 {
		t.Errorf("pick on the good machine: exit code %d", said.code)
	}
	if said := bad.run("pick", "session/claude"); said.code != 75 {
		t.Errorf("pick on the bad machine: exit code %d, want 75", said.code)
	}
}

// Two gateways on one Redis have no more calls under way at a backend than the
// fleet's limit, and all of it where they want it.
func TestALimitOfTheFleetHoldsOverTwoProcesses(t *testing.T) {
	t.Parallel()
	const most = 6
	host, _ := redisServer(t)
	var running, highest, refused atomic.Int64
	release := make(chan struct{})
	u := newUpstream(t)
	u.do(func(w http.ResponseWriter, r *http.Request) {
		now := running.Add(1)
		defer running.Add(-1)
		for old := highest.Load(); now > old && !highest.CompareAndSwap(old, now); old = highest.Load() {
		}
		<-release
		answerWell(w, r)
	})
	var asked sync.WaitGroup
	defer asked.Wait()
	defer close(release)
	p := newPlace(t)
	p.env = append(p.env, "FUSEBOX_STORE=redis://"+host)
	p.write("fusebox.yaml", fmt.Sprintf("backends: {only: {url: \"%s/v1\", dialect: openai, limit: {concurrent: %d, by: fleet}}}\n"+
		"routes: [{match: \"*\", backends: [only]}]\n", u.URL, most))
	ups := []*serving{p.up(), p.up()}

	store, err := redisstore.Open(redisstore.Config{URL: "redis://" + host})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	until(t, "both to have a part", func() bool {
		share, err := store.Share(t.Context(), "limit/only/concurrent", fusebox.Claim{Owner: "test", Limit: most, For: time.Second})
		return err == nil && share.Owners == 2 && !share.Short
	})
	for n := 0; highest.Load() < most && n < 2000; n++ {
		for _, s := range ups {
			asked.Go(func() {
				if a, err := s.tryAsk("m"); err == nil && a.status == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		until(t, "the calls to be refused or under way", func() bool { return running.Load()+refused.Load() == int64(2*n+2) })
	}
	if n := highest.Load(); n != most {
		t.Errorf("%d calls at once, want %d", n, most)
	}
	if s := p.status("model/only/m"); len(s.Circuits) > 0 && s.Circuits[0].Failures > 0 {
		t.Errorf("a limit that was reached is evidence: %+v", s.Circuits)
	}
}
