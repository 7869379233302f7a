package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/admin"
)

// policy opens at two failures in a row, for a minute.
func policy(string) fusebox.Policy {
	p := fusebox.DefaultPolicy("model")
	p.Trip = []fusebox.Trip{fusebox.Streak(2)}
	p.Cooldown = fusebox.Cooldown{After: time.Minute}
	return p
}

type fixture struct {
	box     *fusebox.Box
	store   fusebox.Store
	handler *admin.Handler
}

func newFixture(t *testing.T, change func(*admin.Config)) *fixture {
	t.Helper()
	store := fusebox.NewMemory()
	box, err := fusebox.New(fusebox.Config{Policy: policy, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	cfg := admin.Config{Box: box, Store: store, Version: "v1.2.3"}
	if change != nil {
		change(&cfg)
	}
	handler, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		handler.Close()
		box.Close(context.Background())
		store.Close()
	})
	return &fixture{box, store, handler}
}

func (f *fixture) get(path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	return f.do("GET", path, change...)
}

func (f *fixture) do(method, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:4041"+path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

// call makes one call that ends with r.
func (f *fixture) call(t *testing.T, circuit string, r fusebox.Result) error {
	t.Helper()
	c, err := f.box.Circuit(circuit)
	if err != nil {
		t.Fatal(err)
	}
	permit, err := c.Allow(t.Context())
	if err != nil {
		return err
	}
	permit.Done(r)
	return nil
}

var (
	works  = fusebox.Result{Outcome: fusebox.Success}
	breaks = fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassServer, Err: errors.New("status 503")}
)

// metrics scrapes and returns the samples by their text.
func (f *fixture) metrics(t *testing.T) map[string]string {
	t.Helper()
	w := f.get("/metrics")
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: status %d: %s", w.Code, w.Body)
	}
	samples := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if i := strings.LastIndex(line, " "); !strings.HasPrefix(line, "#") && i > 0 {
			samples[line[:i]] = strings.TrimSpace(line[i+1:])
		}
	}
	return samples
}

func TestMetricsCountWhatHappened(t *testing.T) {
	f := newFixture(t, nil)
	const circuit = "model/a/m"
	for range 3 {
		f.call(t, circuit, works)
	}
	f.call(t, circuit, fusebox.Result{Outcome: fusebox.Success, Attempts: 3})
	f.call(t, circuit, fusebox.Result{Outcome: fusebox.Rejected})
	f.call(t, circuit, breaks)
	f.call(t, circuit, breaks)
	for range 4 {
		if err := f.call(t, circuit, works); !errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("want the circuit open, have %v", err)
		}
	}
	f.call(t, "model/b/m", fusebox.Result{Outcome: fusebox.Throttled, NotBefore: time.Now().Add(time.Hour)})

	got := f.metrics(t)
	want := map[string]string{
		`fusebox_calls_total{circuit="model/a/m",class="",outcome="success"}`:       "4",
		`fusebox_calls_total{circuit="model/a/m",class="",outcome="rejected"}`:      "1",
		`fusebox_calls_total{circuit="model/a/m",class="server",outcome="failure"}`: "2",
		`fusebox_calls_total{circuit="model/b/m",class="",outcome="throttled"}`:     "1",
		`fusebox_wanted_calls_total{circuit="model/a/m"}`:                           "11",
		`fusebox_denials_total{circuit="model/a/m",reason="open"}`:                  "4",
		`fusebox_transitions_total{circuit="model/a/m",from="closed",to="open"}`:    "1",
		`fusebox_absorbed_failures_total{circuit="model/a/m"}`:                      "2",
		`fusebox_throttles_total{circuit="model/b/m"}`:                              "1",
		`fusebox_circuit_state{circuit="model/a/m",phase="open"}`:                   "1",
		`fusebox_circuit_state{circuit="model/a/m",phase="closed"}`:                 "0",
		`fusebox_circuit_state{circuit="model/b/m",phase="closed"}`:                 "1",
		`fusebox_circuit_health{circuit="model/a/m",health="down"}`:                 "1",
		`fusebox_circuit_throttled{circuit="model/b/m"}`:                            "1",
		`fusebox_circuit_failures{circuit="model/a/m"}`:                             "2",
		`fusebox_workers`:  "1",
		`fusebox_store_up`: "1",
	}
	for sample, value := range want {
		if got[sample] != value {
			t.Errorf("%s: want %s, have %q", sample, value, got[sample])
		}
	}
	if !slices.ContainsFunc(keysOf(got), func(s string) bool {
		return strings.HasPrefix(s, "fusebox_build_info{") && strings.Contains(s, `version="v1.2.3"`)
	}) {
		t.Error("build_info with the version is missing")
	}
}

func keysOf(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func TestMetricsCountAProbe(t *testing.T) {
	store := fusebox.NewMemory()
	defer store.Close()
	box, err := fusebox.New(fusebox.Config{Store: store, Policy: func(string) fusebox.Policy {
		p := policy("")
		p.Cooldown = fusebox.Cooldown{Calls: 1}
		return p
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	handler, err := admin.New(admin.Config{Box: box, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	f := &fixture{box, store, handler}
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/a/m", works) // refused, and the cooldown is over
	for i := 0; f.call(t, "model/a/m", works) != nil; i++ {
		if i == 100 {
			t.Fatal("no probe was granted")
		}
		box.Flush(t.Context())
	}
	got := f.metrics(t)
	if v := got[`fusebox_probes_total{circuit="model/a/m",outcome="success"}`]; v != "1" {
		t.Errorf("probes: want 1, have %q", v)
	}
	if v := got[`fusebox_transitions_total{circuit="model/a/m",from="half-open",to="closed"}`]; v != "1" {
		t.Errorf("transitions half-open to closed: want 1, have %q", v)
	}
}

// A run that repeats one failing call is refused, then stuck; each shows.
func TestMetricsCountRuns(t *testing.T) {
	f := newFixture(t, nil)
	c, err := f.box.Circuit("tool/crm/lookup")
	if err != nil {
		t.Fatal(err)
	}
	run := f.box.Run("job-1")
	for range 40 {
		permit, err := run.Allow(t.Context(), c, map[string]any{"id": 1})
		if err == nil {
			permit.Done(fusebox.Result{Outcome: fusebox.Rejected, Err: errors.New("no such id")})
		}
	}
	run.End()
	f.box.Run("job-2").End()
	got := f.metrics(t)
	for sample, want := range map[string]string{
		`fusebox_calls_total{circuit="tool/crm/lookup",class="",outcome="rejected"}`: "3",
		`fusebox_denials_total{circuit="tool/crm/lookup",reason="thrash"}`:           "10",
		`fusebox_thrash_total`: "10",
		`fusebox_denials_total{circuit="tool/crm/lookup",reason="stuck"}`: "27",
		`fusebox_runs_total{outcome="failed"}`:                            "1",
		`fusebox_runs_total{outcome="complete"}`:                          "1",
		`fusebox_runs_total{outcome="degraded"}`:                          "0",
		`fusebox_notices_total{kind="stuck"}`:                             "1",
	} {
		if got[sample] != want {
			t.Errorf("%s: want %s, have %q", sample, want, got[sample])
		}
	}
	body := f.get("/v1/circuits").Body.String()
	if !strings.Contains(body, `{"run":"job-1","stuck":true,`) || strings.Contains(body, `"circuit":"run/job-1"`) {
		t.Errorf("the stuck run stands in %s", body)
	}
}

func TestMetricsCountRequests(t *testing.T) {
	f := newFixture(t, nil)
	f.handler.CountRequest(admin.Request{Outcome: "ok", Elapsed: 2 * time.Second, FirstToken: 300 * time.Millisecond})
	f.handler.CountRequest(admin.Request{Outcome: "failed", Elapsed: time.Second})
	f.handler.CountRequest(admin.Request{Outcome: "no outcome of ours"})
	got := f.metrics(t)
	for sample, want := range map[string]string{
		`fusebox_request_duration_seconds_count{outcome="ok"}`:       "1",
		`fusebox_request_duration_seconds_sum{outcome="ok"}`:         "2",
		`fusebox_request_duration_seconds_count{outcome="failed"}`:   "1",
		`fusebox_request_duration_seconds_count{outcome="degraded"}`: "0",
		`fusebox_request_duration_seconds_count{outcome="other"}`:    "1",
		`fusebox_time_to_first_token_seconds_count`:                  "1",
	} {
		if got[sample] != want {
			t.Errorf("%s: want %s, have %q", sample, want, got[sample])
		}
	}
}

func TestMetricsLint(t *testing.T) {
	f := newFixture(t, nil)
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/a/m", fusebox.Result{Outcome: fusebox.Throttled})
	problems, err := promlint.New(f.get("/metrics").Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A caller can make up any number of names; the metrics must not grow with
// them, and an open circuit among the many must still show.
func TestMetricsLabelsAreBounded(t *testing.T) {
	f := newFixture(t, func(c *admin.Config) { c.MaxCircuits = 5 })
	for i := range 50 {
		f.call(t, fmt.Sprintf("model/a/m%d", i), works)
	}
	f.metrics(t) // now five of them have their labels
	f.call(t, "model/late/m", breaks)
	f.call(t, "model/late/m", breaks)
	f.call(t, "run/some-run", works)
	circuits := map[string]bool{}
	got := f.metrics(t)
	for sample := range got {
		if _, rest, found := strings.Cut(sample, `circuit="`); found {
			name, _, _ := strings.Cut(rest, `"`)
			circuits[name] = true
		}
	}
	if len(circuits) != 6 || !circuits["other"] {
		t.Errorf("want 5 circuits and other, have %v", circuits)
	}
	if v := got[`fusebox_circuit_state{circuit="other",phase="open"}`]; v != "1" {
		t.Errorf("the open circuit among the others: want 1, have %q", v)
	}
	if circuits["run/some-run"] {
		t.Error("a run's id became a label")
	}
}

func TestCircuitsIsTheStatusReport(t *testing.T) {
	f := newFixture(t, nil)
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/b/m", works)
	// Another process's circuit is in the store alone.
	if _, err := f.store.Apply(t.Context(), "session/x", fusebox.Policy{}, fusebox.Event{Kind: fusebox.KindHold,
		Action: fusebox.ActionHeld, Phase: fusebox.Open, At: time.Now(), Cause: "upgrade"}); err != nil {
		t.Fatal(err)
	}
	w := f.get("/v1/circuits")
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	var report struct {
		Circuits []map[string]any `json:"circuits"`
		Runs     []any            `json:"runs"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	var names []string
	for _, c := range report.Circuits {
		names = append(names, c["circuit"].(string))
	}
	if want := []string{"model/a/m", "model/b/m", "session/x"}; !slices.Equal(names, want) {
		t.Fatalf("want %v, have %v", want, names)
	}
	a := report.Circuits[0]
	if a["phase"] != "open" || a["health"] != "down" || a["failures"] != 2.0 || a["last_error"] != "status 503" {
		t.Errorf("model/a/m: %v", a)
	}
	if held := report.Circuits[2]["held"]; held != "open" {
		t.Errorf("session/x: want held open, have %v", held)
	}
	if report.Runs == nil {
		t.Error("runs: want a list, have null")
	}
}

// An alert on a circuit that sessions from cron had opened never fired: the
// gauges showed the circuits of this process alone.
func TestMetricsShowWhatOtherProcessesOpened(t *testing.T) {
	f := newFixture(t, nil)
	if _, err := f.store.Apply(t.Context(), "session/x", fusebox.Policy{}, fusebox.Event{Kind: fusebox.KindTrip, At: time.Now(), Cause: "upgrade"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.Apply(t.Context(), "run/job", fusebox.Policy{}, fusebox.Event{Kind: fusebox.KindTrip, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	samples := f.metrics(t)
	if got := samples[`fusebox_circuit_state{circuit="session/x",phase="open"}`]; got != "1" {
		t.Errorf("session/x is open, have %q in %v", got, samples)
	}
	if got, ok := samples[`fusebox_circuit_state{circuit="run/job",phase="open"}`]; ok {
		t.Errorf("a run is no label, have %s", got)
	}
	for outcome, want := range map[string]string{"complete": "0", "degraded": "0", "failed": "1"} {
		if got := samples[`fusebox_runs_known{outcome="`+outcome+`"}`]; got != want {
			t.Errorf("%s runs: have %q, want %s", outcome, got, want)
		}
	}
}

// brokenStore fails every call.
type brokenStore struct{ fusebox.Store }

func (brokenStore) Apply(context.Context, string, fusebox.Policy, ...fusebox.Event) (fusebox.State, error) {
	return fusebox.State{}, errors.New("disk full")
}

func TestCircuitsGoOnWithoutTheStore(t *testing.T) {
	memory := fusebox.NewMemory()
	defer memory.Close()
	store := brokenStore{memory}
	box, err := fusebox.New(fusebox.Config{Policy: policy, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(expired())
	handler, err := admin.New(admin.Config{Box: box, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	f := &fixture{box, store, handler}
	f.call(t, "model/a/m", breaks)
	f.call(t, "model/a/m", breaks)
	inTime := func(r *http.Request) { *r = *r.WithContext(expired()) }
	body := f.get("/v1/circuits", inTime).Body.String()
	for _, want := range []string{`"circuit":"model/a/m"`, `"phase":"open"`, `"local":true`} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in %s", want, body)
		}
	}
	var report struct {
		Store   struct{ Answers bool }
		Workers []fusebox.Worker
	}
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		t.Fatal(err)
	}
	if w := report.Workers; report.Store.Answers || len(w) != 1 || w[0].ID != box.Worker().ID || w[0].LocalSince.IsZero() || !w[0].LocalUntil.IsZero() {
		t.Errorf("want this worker alone, local since some time, have %+v", report)
	}
	if w := f.get("/metrics", inTime); !strings.Contains(w.Body.String(), "fusebox_store_up 0") {
		t.Errorf("want store_up 0, have %d %s", w.Code, w.Body)
	}
}

// expired is a context that is over, so that nothing waits for a store that
// never answers.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestToken(t *testing.T) {
	f := newFixture(t, func(c *admin.Config) { c.Token = func() string { return "s3cret" } })
	header := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", value) }
	}
	for _, path := range []string{"/metrics", "/v1/circuits"} {
		for _, bad := range []string{"", "Bearer", "Bearer wrong", "Basic s3cret", "Bearer s3cret2"} {
			if w := f.get(path, header(bad)); w.Code != http.StatusUnauthorized {
				t.Errorf("%s with %q: want 401, have %d", path, bad, w.Code)
			} else if strings.Contains(w.Body.String(), "s3cret") {
				t.Errorf("%s tells the token: %s", path, w.Body)
			}
		}
		if w := f.get(path, header("Bearer s3cret")); w.Code != http.StatusOK {
			t.Errorf("%s with the token: want 200, have %d", path, w.Code)
		}
	}
	if w := f.get("/healthz", func(r *http.Request) { r.Host = "any.name" }); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("/healthz: %d %q", w.Code, w.Body)
	}
}

// A token that cannot be had opens nothing.
func TestEmptyTokenIsLikeNothing(t *testing.T) {
	f := newFixture(t, func(c *admin.Config) { c.Token = func() string { return "" } })
	for _, header := range []string{"", "Bearer ", "Bearer"} {
		if w := f.get("/metrics", func(r *http.Request) { r.Header.Set("Authorization", header) }); w.Code != http.StatusUnauthorized {
			t.Errorf("%q: want 401, have %d", header, w.Code)
		}
	}
}

// A web page can let its own name point at this listener.
func TestDNSRebindingIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	tests := map[string]int{
		"127.0.0.1:4041":         200,
		"localhost:4041":         200,
		"LOCALHOST":              200,
		"[::1]:4041":             200,
		"192.0.2.7:4041":         200,
		"fusebox.localhost:4041": 200,
		"evil.example:4041":      403,
		"127.0.0.1.evil.test":    403,
		"localhost.evil.test":    403,
		"":                       403,
	}
	for host, want := range tests {
		w := f.get("/v1/circuits", func(r *http.Request) { r.Host = host })
		if w.Code != want {
			t.Errorf("host %q: want %d, have %d", host, want, w.Code)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	f := newFixture(t, nil)
	tests := []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 404},
		{"GET", "/v1/nothing", 404},
		{"POST", "/v1/circuits", 405},
		{"DELETE", "/metrics", 405},
		{"HEAD", "/healthz", 200},
	}
	for _, tt := range tests {
		if w := f.do(tt.method, tt.path); w.Code != tt.want {
			t.Errorf("%s %s: want %d, have %d", tt.method, tt.path, tt.want, w.Code)
		}
	}
	crossOrigin := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if w := f.do("POST", "/v1/circuits", crossOrigin); w.Code != http.StatusForbidden {
		t.Errorf("a change from another site: want 403, have %d", w.Code)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	for name, cfg := range map[string]admin.Config{"no box": {}, "negative cap": {Box: box, MaxCircuits: -1}} {
		if _, err := admin.New(cfg); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

func TestAfterCloseTheBoxIsHeardNoMore(t *testing.T) {
	f := newFixture(t, nil)
	f.call(t, "model/a/m", breaks)
	before := f.metrics(t)[`fusebox_calls_total{circuit="model/a/m",class="server",outcome="failure"}`]
	f.handler.Close()
	f.call(t, "model/a/m", breaks)
	after := f.metrics(t)[`fusebox_calls_total{circuit="model/a/m",class="server",outcome="failure"}`]
	if before != "1" || after != "1" {
		t.Errorf("want 1 and 1, have %q and %q", before, after)
	}
}

var _ http.Handler = (*admin.Handler)(nil)
