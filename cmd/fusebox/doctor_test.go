package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// doctorReport is what doctor --json prints.
type doctorReport struct {
	Down  bool
	Store struct {
		Address, Error string
		Answers        bool
		Latency        float64 `json:"latency_ms"`
	}
	Workers  []fusebox.Worker
	Backends []struct {
		Backend   string
		Condition string
		Failures  int
		LastError string `json:"last_error"`
		Check     *struct {
			OK    bool
			Error string
		}
	}
	Circuits []struct {
		circuit
		Condition string
		Policy    []string
		Effective int `json:"effective_threshold"`
		Unshared  int `json:"unshared_threshold"`
		Workers   int
		Malformed int
		Differing []struct {
			Worker, Fingerprint string
			Differences         []string
		} `json:"differing_workers"`
	}
	Malformed int
}

func TestDoctorTellsUnknownFromDown(t *testing.T) {
	p, u := newPlace(t), newUpstream(t)
	p.serveOne(u, "")
	r := p.must("doctor")
	if !strings.Contains(r.stdout, "unknown") || strings.Contains(r.stdout, "down") {
		t.Errorf("nothing was checked: %s", r.stdout)
	}
	if u.count() != 0 {
		t.Errorf("doctor only reads, but the backend was called %d times", u.count())
	}
	if _, err := os.Stat(filepath.Join(p.storeDir(), "model+only+m.jsonl")); err == nil {
		t.Error("doctor only reads, but a log was written")
	}
}

func TestDoctorConditions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.must("trip", "a/down")
	p.must("throttle", "a/throttled", "--for", "1h")
	p.must("hold", "closed", "a/held")
	var got doctorReport
	r := p.run("doctor", "--json")
	r.decode(t, &got)
	if r.code != exitFailed || !got.Down {
		t.Errorf("want exit code 1 and down, have %d and %v", r.code, got.Down)
	}
	want := map[string]string{"a/down": "down", "a/throttled": "throttled", "a/held": "held"}
	for _, c := range got.Circuits {
		if c.Condition != want[c.Circuit] {
			t.Errorf("%s: want %s, have %s", c.Circuit, want[c.Circuit], c.Condition)
		}
		if len(c.Policy) == 0 || c.Effective != 5 {
			t.Errorf("%s: want its policy in words and the threshold 5, have %v, %d", c.Circuit, c.Policy, c.Effective)
		}
	}
	p.must("reset", "a/down")
	if r := p.run("doctor"); r.code != exitOK {
		t.Errorf("throttled and held closed are not down: want exit code 0, have %d", r.code)
	}
}

func TestDoctorCheckAsksAndRecords(t *testing.T) {
	t.Parallel()
	p, well := newPlace(t), newUpstream(t)
	gone := newUpstream(t)
	gone.Close()
	p.write("fusebox.yaml", fmt.Sprintf(`
circuits: {model/gone/*: {trip: [{streak: 2}]}}
backends:
  well: {url: "%s/v1", dialect: openai}
  gone: {url: "%s/v1", dialect: openai}
routes:
  - {match: "*", backends: [well, gone]}
`, well.URL, gone.URL))
	for _, want := range []map[string]string{
		{"well": "up", "gone": "up"}, // one failure is not an outage, but whoever asked is told
		{"well": "up", "gone": "down"},
	} {
		var got doctorReport
		r := p.run("doctor", "--check", "--json")
		r.decode(t, &got)
		if r.code != exitFailed || !got.Down {
			t.Errorf("want exit code 1, have %d: %s", r.code, r.stdout)
		}
		for _, b := range got.Backends {
			if b.Condition != want[b.Backend] || b.Check == nil || b.Check.OK != (b.Backend == "well") {
				t.Errorf("%s: want %s, have %+v", b.Backend, want[b.Backend], b)
			}
		}
	}
	if r := p.run("doctor"); !strings.Contains(r.stdout, "connection refused") || r.code != exitFailed {
		t.Errorf("the checks were not recorded: %d %s", r.code, r.stdout)
	}
}

func TestDoctorReportsMalformedLinesAndWorkers(t *testing.T) {
	p := newPlace(t)
	p.must("reset", "session/a") // makes the store
	log := filepath.Join(p.storeDir(), "session+a.jsonl")
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	for i, worker := range []string{"one", "two", "one"} {
		fmt.Fprintf(f, `{"at":%q,"outcome":"success","ms":10,"worker":%q}`+"\n", now.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano), worker)
	}
	fmt.Fprintf(f, "this is no record\n{\"at\":\"never\",\"outcome\":\"success\"}\n")
	f.Close()
	var got doctorReport
	p.must("doctor", "--json").decode(t, &got)
	if len(got.Circuits) != 1 || got.Malformed != 2 {
		t.Fatalf("want one circuit and 2 malformed lines, have %+v", got)
	}
	if c := got.Circuits[0]; c.Malformed != 2 || c.Workers != 2 || c.Effective != 3 || c.Unshared != 6 || c.Health != "up" {
		t.Errorf("want 2 malformed lines, 2 workers, threshold 3, 6 unshared, up; have %+v", c)
	}
	r := p.must("doctor")
	for _, want := range []string{"2 malformed lines skipped", "session+a.jsonl:"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
}

// A file of an older harness that cannot be read blocks nothing, and is told.
func TestDoctorReportsGarbledOlderFiles(t *testing.T) {
	p := newPlace(t)
	p.must("reset", "session/a")
	if err := os.WriteFile(filepath.Join(p.storeDir(), "session+a.blocked-until"), []byte("tomorrow, perhaps\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.must("doctor")
	if !strings.Contains(r.stdout, "session/a: what cannot be read of its files is left out\n") || !strings.Contains(r.stdout, "session+a.blocked-until: want one time") {
		t.Errorf("want the file named in\n%s", r.stdout)
	}
	if strings.Contains(r.stdout, "0 malformed") { // as it once said
		t.Errorf("no line of a log is malformed:\n%s", r.stdout)
	}
}

// A key that is refused is told with the variable that holds it: waiting does
// not mend it.
func TestDoctorNamesTheVariableOfARefusedKey(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", `backends:
  paid:  {url: "http://127.0.0.1:9/v1", dialect: openai, key: {env: PAID_KEY}}
  other: {url: "http://127.0.0.1:9/v1", dialect: openai}
routes: [{match: "*", backends: [paid, other]}]
`)
	p.must("record", "--circuit", "credential/paid_key", "--outcome", "failure", "--class", "auth", "--error", "401: no such key")
	r := p.run("doctor")
	const says = "paid: its key is refused: put a good one into the environment variable PAID_KEY, start what serves it again, then fusebox reset credential/paid_key\n"
	if r.code != exitFailed || !strings.Contains(r.stdout, says) || strings.Contains(r.stdout, "other: ") {
		t.Errorf("want exit code 1 and %q, have %d and\n%s", says, r.code, r.stdout)
	}
	p.must("reset", "credential/paid_key")
	if r := p.must("doctor"); strings.Contains(r.stdout, "its key is refused") {
		t.Errorf("after the reset:\n%s", r.stdout)
	}
}

// Workers that were started with another file than the one here decide by that.
func TestDoctorTellsOfAnotherPolicy(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", "circuits: {tool/*: {trip: [{streak: 7}]}}\n")
	p.must("trip", "tool/crm")
	p.must("reset", "tool/crm")
	const words = "its policy is not that of the configuration here"
	if r := p.must("doctor"); strings.Contains(r.stdout, words) {
		t.Errorf("it is the same: %s", r.stdout)
	}
	p.write("fusebox.yaml", "circuits: {tool/*: {trip: [{streak: 8}]}}\n")
	if r := p.must("doctor"); !strings.Contains(r.stdout, words) {
		t.Errorf("the file has changed since: %s", r.stdout)
	}
}
