package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// full is a file that says everything there is to say.
const full = `
store: file:///var/lib/fusebox            # or redis://host:6379/0
keep: 720h                                # old log files
sync: never                               # or transitions
worker: ""                                # default: the host's name
quorum: 2                                 # hosts that must see failures
mode: enforce                             # or observe
gateway: {listen: 127.0.0.1:4040, token: {env: GATEWAY_TOKEN}}
admin:   {listen: 127.0.0.1:4041, token: {env: ADMIN_TOKEN}}
circuits:
  model/*:
    trip:     [{count: 5, of: 10, within: 60s}, {streak: 5}]
    on_class: [auth]
    cooldown: {after: 30s, jitter: 0.2, growth: 2, max: 2m}
    probe:    {concurrent: 1, close_after: 1, attempts: 1, lease: 60s}
    unit: visit                           # or attempt
    on_open: degrade                      # or stop_run
  session/*:   {trip: [{count: 3, within: 60m}], faster_than: 60s, cooldown: {after: 1h}}
  tool/calc/*: {guard: off}
  tool/crm/*:  {trip: [{streak: 3}], distinct: true, cooldown: {calls: 2}}
  model/local/*: {overdue: 60s}
thrash: {repeats: 3, same_error: 6, stop_after: 10, stuck_after_failures: 0, forget: 10m, texts: denials.tmpl, ignore: [request_id, /meta/sent_at], identify: {tool/crm/lookup: [/id]}}
retry:  {attempts: 2, base: 500ms, max: 8s, wait: 0s, budget: {ratio: 0.2, per_minute: 10}}
backends:
  local:  {url: "http://127.0.0.1:11434/v1", dialect: openai, models: {"*": llama3.2}, timeouts: {connect: 2s, headers: 60s, first_token: 60s, idle: 20s, total: 10m}, limit: {concurrent: 4, per_minute: 60, by: fleet}, check: {path: /health, every: 10s, timeout: 2s, probe: true}}
  paid:   {url: "https://api.example.com/v1", dialect: openai, key: {env: PAID_API_KEY}}   # key: client passes the client's own
  other:  {url: "https://api.example.org/v1", dialect: openai, check: {}}
routes:
  - {match: "gpt-*", backends: [{backend: paid, priority: 1, weight: 3}, {backend: other, priority: 1}, local], answers: whole}
  - {match: "*", backends: [local, paid], answers: pass, next_on: [context_length_exceeded, Content_Filter], attempts: 4}
mcp:
  servers: {crm: {command: [node, crm.js], deadline: 50s}, search: {url: "http://127.0.0.1:9000/mcp", listen: 127.0.0.1:4050, deadline: {"*": 50s, crawl: 5m, wait: 0}}}
`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("fusebox.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheWholeFileIsRead(t *testing.T) {
	c := parse(t, full)
	if c.Loaded.IsZero() || time.Since(c.Loaded) > time.Minute {
		t.Errorf("loaded at %v", c.Loaded)
	}
	for i := range c.Backends {
		c.Backends[i].path = ""
	}
	for i := range c.MCP.Servers {
		c.MCP.Servers[i].path = ""
	}
	for _, field := range []struct {
		name       string
		have, want any
	}{
		{"store", c.Store.URL(), "file:///var/lib/fusebox"},
		{"keep", c.Keep, 720 * time.Hour},
		{"sync", c.Sync, SyncNever},
		{"worker", c.Worker, ""},
		{"quorum", c.Quorum, 2},
		{"mode", c.Mode, ModeEnforce},
		{"gateway", c.Gateway, Listener{"127.0.0.1:4040", Secret{Env: "GATEWAY_TOKEN"}}},
		{"admin", c.Admin, Listener{"127.0.0.1:4041", Secret{Env: "ADMIN_TOKEN"}}},
		{"thrash", c.Thrash, fusebox.Thrash{Repeats: 3, SameError: 6, StopAfter: 10, Struggling: 12, Forget: 10 * time.Minute,
			Ignore: []string{"request_id", "/meta/sent_at"}}},
		{"texts", c.texts, "denials.tmpl"},
		{"identify", c.Settings("tool/crm/lookup").Identify, []string{"/id"}},
		{"retry", c.Retry, fusebox.DefaultRetry()},
		{"backends", c.Backends, []Backend{
			{Name: "local", URL: "http://127.0.0.1:11434/v1", Dialect: OpenAI, Models: map[string]string{"*": "llama3.2"},
				Timeouts: Timeouts{2 * time.Second, time.Minute, time.Minute, 20 * time.Second, 10 * time.Minute}, Limit: Limit{4, 60, true},
				Check: ActiveCheck{10 * time.Second, "/health", 2 * time.Second, true}},
			{Name: "paid", URL: "https://api.example.com/v1", Dialect: OpenAI, Key: Secret{Env: "PAID_API_KEY"}},
			{Name: "other", URL: "https://api.example.org/v1", Dialect: OpenAI, Check: DefaultActiveCheck},
		}},
		{"routes", c.Routes, []Route{
			{"gpt-*", []RouteBackend{{"paid", 1, 3}, {"other", 1, 1}, {"local", 2, 1}}, AnswersWhole, nil, 0},
			{"*", InOrder("local", "paid"), AnswersPass, []string{"context_length_exceeded", "content_filter"}, 4},
		}},
		{"servers", c.MCP.Servers, []Server{
			{Name: "crm", Command: []string{"node", "crm.js"}, Deadline: map[string]time.Duration{AllTools: 50 * time.Second}},
			{Name: "search", URL: "http://127.0.0.1:9000/mcp", Listener: Listener{Listen: "127.0.0.1:4050"},
				Deadline: map[string]time.Duration{AllTools: 50 * time.Second, "crawl": 5 * time.Minute, "wait": 0}},
		}},
		{"patterns", c.Patterns(), []string{"model/*", "session/*", "tool/crm/*", "tool/calc/*", "model/local/*"}},
	} {
		if !reflect.DeepEqual(field.have, field.want) {
			t.Errorf("%s: have %+v, want %+v", field.name, field.have, field.want)
		}
	}
}

func TestTheWholeFileSetsPolicies(t *testing.T) {
	c := parse(t, full)
	want := fusebox.DefaultPolicy("model")
	want.Quorum = 2
	if got := c.Policy("model/paid/x"); !got.Equal(want) || !got.Loaded.Equal(c.Loaded) {
		t.Errorf("model/paid/x: %+v, want what is built in", got)
	}
	want.Overdue = time.Minute
	if got := c.Policy("Model/LOCAL/llama3.2"); !got.Equal(want) {
		t.Errorf("model/local/llama3.2: %+v, want %+v", got, want)
	}
	crm := c.Policy("tool/crm/lookup")
	if crm.Cooldown.Calls != 2 || crm.Cooldown.After != 0 || !crm.Distinct {
		t.Errorf("tool/crm/lookup: %+v", crm)
	}
	if s := c.Settings("tool/calc/add"); s.Guard || s.Thrash || len(s.Policy.Trip)+len(s.Policy.OnClass) > 0 || s.Policy.IsZero() {
		t.Errorf("tool/calc/add: %+v, want no guard", s)
	}
}

func TestNothingIsADefaultConfig(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "comment": "# nothing yet\n", "separator": "---\n",
		"byte order mark": "\ufeff# nothing yet\n",
		"empty sections":  "circuits:\nbackends:\nroutes:\nthrash:\ngateway:\nmcp:\n"} {
		t.Run(name, func(t *testing.T) {
			c := parse(t, text)
			want := Default()
			c.File, c.Loaded = "", time.Time{}
			c.at, c.circuits, want.at, want.circuits = nil, nil, nil, nil
			if !reflect.DeepEqual(c, want) {
				t.Errorf("have %+v, want %+v", c, want)
			}
		})
	}
}

func TestLineEndsOfWindows(t *testing.T) {
	c := parse(t, "quorum: 3\r\ncircuits:\r\n  tool/*: {guard: off}\r\n")
	if c.Quorum != 3 || c.Settings("tool/x").Guard {
		t.Errorf("have %+v", c)
	}
}

func TestThrashIsReadAsTheRootPackageTakesIt(t *testing.T) {
	c := parse(t, "thrash: {repeats: 4, same_error: 0, stop_after: 5, stuck_after_failures: 7, forget: 1m, ignore: [nonce]}")
	want := fusebox.Thrash{Repeats: 4, StopAfter: 5, StuckAfterFailures: 7, Struggling: 12, Forget: time.Minute, Ignore: []string{"nonce"}}
	if !reflect.DeepEqual(c.Thrash, want) {
		t.Errorf("have %+v, want %+v", c.Thrash, want)
	}
	if err := c.Thrash.Validate(); err != nil {
		t.Error(err)
	}
}
