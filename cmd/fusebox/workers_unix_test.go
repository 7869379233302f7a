//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/filestore"
)

// Eight workers report at random, and after every step all readers say the
// same: status, doctor, pick, why, and a process that is there all the time.
func TestReadersAgree(t *testing.T) {
	p := newPlace(t)
	const circuit = "session/shared"
	policy := []string{"--trip", "count=4,within=60m", "--trip", "streak=3", "--cooldown", "150ms", "--jitter", "0"}
	up := p.up("--demo")
	random := rand.New(rand.NewPCG(1, 2))
	for step := range 12 {
		var workers sync.WaitGroup
		for range 8 {
			outcome := []string{"success", "failure", "failure", "rejected", "canceled"}[random.IntN(5)]
			workers.Go(func() {
				p.run(append([]string{"record", "--circuit", circuit, "--outcome", outcome, "--ms", "1"}, policy...)...)
			})
		}
		workers.Wait()
		if step%3 == 2 { // let somebody probe
			p.run("run", "--circuit", circuit, "--wait", "--", "true")
		}
		s := p.statusOf(circuit)
		phase, version := fmt.Sprint(s["phase"]), fmt.Sprint(s["version"])
		if got := p.doctorPhase(circuit); got != phase {
			t.Fatalf("step %d: doctor says %s, status %s", step, got, phase)
		}
		if usable := p.run("pick", "--peek", circuit).code == exitOK; usable != (phase != "open" || s["retry_after_s"] == 0.0) {
			if again := p.statusOf(circuit); again["retry_after_s"] != 0.0 { // its cooldown did not just end
				t.Fatalf("step %d: pick says usable: %v, status %v", step, usable, again)
			}
		}
		if why := p.must("why", circuit); !strings.Contains(why.stdout, phase) {
			t.Fatalf("step %d: why does not say %s:\n%s", step, phase, why.stdout)
		}
		refolded := p.refold(circuit)
		if refolded.Phase.String() != phase || fmt.Sprint(refolded.Version) != version {
			t.Fatalf("step %d: folded again the log says %v, version %d; status %s, %s", step, refolded.Phase, refolded.Version, phase, version)
		}
		if served := up.circuits().find(circuit); served.Phase != phase {
			t.Fatalf("step %d: the admin listener says %s, status %s", step, served.Phase, phase)
		}
	}
}

// doctorPhase is what doctor says of a circuit's phase.
func (p *place) doctorPhase(circuit string) string {
	p.t.Helper()
	var report struct {
		Circuits []struct{ Circuit, Phase string }
	}
	p.run("doctor", "--json").decode(p.t, &report)
	for _, c := range report.Circuits {
		if c.Circuit == circuit {
			return c.Phase
		}
	}
	return ""
}

// refold folds the circuit's log from its first line, and wants every state
// that was recorded on the way.
func (p *place) refold(circuit string) fusebox.State {
	p.t.Helper()
	log, err := os.Open(p.logOf(circuit))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	var last fusebox.State
	for step, err := range filestore.Refold(circuit, log, time.Now()) {
		if err != nil {
			p.t.Fatal(err)
		}
		if step.Recorded != nil && !step.Agrees() {
			p.t.Fatalf("folded again: %+v, recorded: %+v", step.After, *step.Recorded)
		}
		last = step.After
	}
	return last
}

func (p *place) logOf(circuit string) string {
	return filepath.Join(p.storeDir(), strings.ReplaceAll(circuit, "/", "+")+".jsonl")
}

// Eight shell workers loop over a command that fails one time in two, and are
// killed at random: the circuit opens, nothing acknowledged is lost, one probe
// runs after the cooldown, and replay tells the same story as events.
func TestWorkersThatAreKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const circuit = "session/flaky"
	policy := "--trip count=5,within=60m --cooldown 400ms --jitter 0 --probe-lease 1s"
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	loop := fmt.Sprintf(`
i=0
while [ $i -lt 200 ]; do
  i=$((i+1))
  "$0" run --circuit %s %s -- sh -c 'exit $(($1 %% 2))' sh $(($(od -An -N1 -tu1 /dev/urandom))) 2>/dev/null
  code=$?
  if [ $code -eq 0 ] || [ $code -eq 1 ]; then echo $code; fi
  if [ $code -eq 75 ]; then sleep 0.05; fi
done`, circuit, policy)
	var mu sync.Mutex
	acknowledged := map[string]int{}
	var workers sync.WaitGroup
	tried := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return acknowledged["0"] > 0 && acknowledged["1"] > 0
	}
	deadline := time.Now().Add(6 * time.Second)
	const loops = 8
	for w := range loops {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for ctx.Err() == nil && (time.Now().Before(deadline) || !tried()) {
				cmd := exec.CommandContext(ctx, "sh", "-c", loop, binary)
				cmd.Dir, cmd.Env = p.dir, p.env
				cmd.SysProcAttr = newGroup()
				var out strings.Builder
				cmd.Stdout = &out
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				kill := time.AfterFunc(time.Duration(500+random.IntN(1500))*time.Millisecond, func() { killGroup(cmd.Process.Pid) })
				_ = cmd.Wait() // it was killed
				kill.Stop()
				mu.Lock()
				for code := range strings.FieldsSeq(out.String()) {
					acknowledged[code]++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()

	store, err := filestore.Open(filestore.Config{Dir: p.storeDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	recorded := map[string]int{}
	var failures []time.Time
	var opened int
	probes := map[string]bool{} // live leases
	for e, err := range store.Evidence(t.Context(), circuit, time.Time{}) {
		if err != nil {
			t.Fatalf("a killed worker left a line that is no record: %v", err)
		}
		switch {
		case e.Kind == fusebox.KindEvidence && e.Outcome == fusebox.Success:
			recorded["0"]++
		case e.Kind == fusebox.KindEvidence && e.Outcome == fusebox.Failure:
			recorded["1"]++
			failures = append(failures, e.At)
		case e.Kind == fusebox.KindTransition && e.Phase == fusebox.Open:
			opened++
		}
		if e.State != nil {
			clear(probes)
			for _, l := range e.State.Leases {
				if l.Until.After(e.At) {
					probes[l.Token] = true
				}
			}
			if len(probes) > 1 {
				t.Fatalf("%d probes at once", len(probes))
			}
		}
	}
	for code, n := range acknowledged {
		if recorded[code] < n {
			t.Errorf("exit %s: %d acknowledged, %d recorded", code, n, recorded[code])
		}
	}
	if opened == 0 || acknowledged["0"] == 0 || acknowledged["1"] == 0 {
		t.Errorf("opened %d times, acknowledged %v: nothing was tried", opened, acknowledged)
	}
	if s := p.statusOf(circuit); s["version"] == 0.0 {
		t.Errorf("%v", s)
	}
	happened, replayed := firstOpening(t, p, circuit, policy)
	between := 0
	for _, at := range failures {
		if at.After(replayed.At) && !at.After(happened.At) {
			between++
		}
	}
	if happened.Failures != replayed.Failures || happened.At.IsZero() || replayed.At.After(happened.At) || between > loops {
		t.Errorf("it opened: %+v; replayed: %+v; %d failures in between", happened, replayed, between)
	}
}

// opening is a transition to open, as events and replay print it.
type opening struct {
	At       time.Time `json:"at"`
	To       string    `json:"to"`
	Failures int       `json:"failures"`
}

// firstOpening is what events shows and what replay says of the same calls under
// the same policy. They are the same story up to the first probe: from there on
// replay asks what refused calls would have done, which nobody knows. Replay
// takes the calls in the order in which they ended, the log in the order in
// which they were reported: it may have opened by as many failures later as
// there were workers with one to report.
func firstOpening(t *testing.T, p *place, circuit, policy string) (happened, replayed opening) {
	t.Helper()
	first := func(out string) opening {
		for text := range strings.Lines(out) {
			var o opening
			if json.Unmarshal([]byte(text), &o) == nil && o.To == "open" {
				return o
			}
		}
		return opening{}
	}
	happened = first(p.must("events", "--json", circuit).stdout)
	replayed = first(p.must(append(append([]string{"replay", "--json"}, strings.Fields(policy)...), p.logOf(circuit))...).stdout)
	return happened, replayed
}

func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a worker with all that it started.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
