package fusebox_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// wholeReport says something in every field that is written.
func wholeReport() fusebox.Report {
	at := time.Date(2026, 3, 1, 10, 9, 0, 0, time.UTC)
	p := fusebox.DefaultPolicy("tool")
	p.Loaded = at
	return fusebox.Report{
		Circuits: []fusebox.Status{
			{Circuit: "tool/unknown"},
			{Circuit: "tool/crm", Phase: fusebox.HalfOpen, Health: fusebox.Down, Version: 7, Failures: 3, RetryAfter: 1500 * time.Millisecond,
				Since: at, Reason: "3 failures in a row", LastError: "<broken>", LastClass: fusebox.ClassServer, Latency: 12500 * time.Microsecond,
				CheckedAt: at.Add(time.Second), Throttled: at.Add(time.Hour), Held: &fusebox.Hold{To: fusebox.Open, Until: at.Add(time.Minute), Reason: "invoice"},
				Denied: 4, Probes: []fusebox.Lease{{Token: "t", At: at, Until: at.Add(time.Minute), Worker: "web-1:7"}},
				Local: true, LocalSince: at, Host: "web-1"},
			{Circuit: "tool/search", Health: fusebox.Up, CheckedAt: at,
				Hosts: []fusebox.HostStatus{{Host: "web-2", Phase: fusebox.Open, Failures: 3, RetryAfter: time.Second, Since: at, LastError: "reset"}}},
		},
		Runs:  []fusebox.RunStatus{{Run: "nightly", Stuck: true, Struggling: true, Denied: 3, Outcome: fusebox.RunFailed, Since: at}},
		Store: &fusebox.StoreStatus{Address: "redis://h/0", Answers: true, Latency: 412 * time.Microsecond, Clock: at},
		Workers: []fusebox.Worker{{ID: "1", Name: "web-1:7", Version: "v1", Since: at, Seen: at, LocalSince: at, LocalUntil: at.Add(time.Second),
			Policies: []fusebox.WorkerPolicy{{Fingerprint: p.Fingerprint(), Policy: p, Circuits: []string{"tool/crm"}, Count: 1}}}},
	}
}

func TestReportReadsBack(t *testing.T) {
	want := wholeReport()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got fusebox.Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nreads back as\n%+v", text, got)
	}
}

// FuzzReport reads what another process may have sent.
func FuzzReport(f *testing.F) {
	text, err := json.Marshal(wholeReport())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(`{"circuits":[{"health":"well","held":"half"}],"store":{"latency_ms":-1e300}}`)
	f.Add(`{"circuits":[{"retry_after_s":1e300,"phase":"open"}],"runs":[{"since":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var read, again fusebox.Report
		if json.Unmarshal([]byte(text), &read) != nil {
			return
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", text, err)
		}
		if err := json.Unmarshal(written, &again); err != nil || len(again.Circuits) != len(read.Circuits) {
			t.Fatalf("%q is written as %s: %v", text, written, err)
		}
	})
}
