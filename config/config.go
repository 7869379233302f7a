package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Mode says whether decisions are enforced.
type Mode string

const (
	ModeEnforce Mode = "enforce"
	ModeObserve Mode = "observe" // decided and recorded, but nothing is refused
)

// Sync says when the file store forces its writes to the disk.
type Sync string

const (
	SyncNever       Sync = "never"       // a crash of the process loses nothing, a power cut may
	SyncTransitions Sync = "transitions" // after each transition
)

// Config is all that the configuration file can say, with what is built in
// where it says nothing. Change it, by flags for example, before the first call
// of Settings or Policy; after that it is read only, and safe for concurrent use.
type Config struct {
	File   string    // that it was read from; "" = none
	Loaded time.Time // when; zero = from no file, so that anything loaded is newer

	Store    StoreURL      // zero = [DefaultStore]
	Keep     time.Duration // how long old log files are kept
	Sync     Sync
	Worker   string // name of this worker; "" = the host's
	Quorum   int    // hosts that must see failures before a circuit opens for all; 0 = 2 on a store for many machines, else 1
	Mode     Mode
	Gateway  Listener
	Admin    Listener
	Thrash   fusebox.Thrash // its Texts are read by Load
	Retry    fusebox.Retry
	Backends []Backend // in the order of the file
	Routes   []Route   // in the order of the file: the first that matches serves
	MCP      MCP

	ThrashOff bool // repeats of failing calls are not looked for, in any circuit

	texts    string // file with templates of denials; "" = the built-in ones
	circuits *circuits
	at       map[string]Position
}

// Dialect is the API that a backend speaks.
type Dialect string

const (
	OpenAI    Dialect = "openai"
	Anthropic Dialect = "anthropic"
)

// Backend is a model API that the gateway sends to.
type Backend struct {
	Name      string // a segment of its circuits' names
	URL       string // ends where the dialect's own paths begin
	Dialect   Dialect
	Key       Secret            // zero = none is sent
	ClientKey bool              // the client's own key is passed on
	Models    map[string]string // requested name or pattern to the backend's name
	Timeouts  Timeouts
	Limit     Limit
	Check     ActiveCheck

	path string // in the file
}

// Model returns the backend's name for a requested model: by the most exact
// entry of Models that matches, else the name itself.
func (b Backend) Model(requested string) string {
	name, best, found := requested, pattern{}, false
	for from, to := range b.Models {
		p := compilePattern(from)
		if p.match(requested) && (!found || p.compare(best) > 0) {
			name, best, found = to, p, true
		}
	}
	return name
}

// Limit bounds what is asked of a backend; 0 = no bound.
type Limit struct {
	Concurrent, PerMinute int

	Fleet bool // over all processes that share the store; else by each process
}

// ActiveCheck has a backend asked something free now and then.
type ActiveCheck struct {
	Every   time.Duration // 0 = never
	Path    string        // after the backend's URL
	Timeout time.Duration
	Probe   bool // a check decides whether an open circuit closes, in place of a call
}

// DefaultActiveCheck is what a check says that leaves everything out.
var DefaultActiveCheck = ActiveCheck{Every: 30 * time.Second, Path: "/models", Timeout: 5 * time.Second}

// Timeouts bound the parts of a call. Zero means that the file does not say.
type Timeouts struct {
	Connect    time.Duration
	Headers    time.Duration
	FirstToken time.Duration
	Idle       time.Duration // silence between tokens
	Total      time.Duration
}

// DefaultTimeouts are built in for streamed answers. Of answers that are not
// streamed only Connect and Total are limited, unless a backend sets more.
var DefaultTimeouts = Timeouts{Connect: 5 * time.Second, Headers: time.Minute, FirstToken: time.Minute,
	Idle: 30 * time.Second, Total: 10 * time.Minute}

// OrDefault returns t with what is built in where it says nothing.
func (t Timeouts) OrDefault() Timeouts {
	or := func(v, d time.Duration) time.Duration {
		if v == 0 {
			return d
		}
		return v
	}
	d := DefaultTimeouts
	return Timeouts{or(t.Connect, d.Connect), or(t.Headers, d.Headers), or(t.FirstToken, d.FirstToken),
		or(t.Idle, d.Idle), or(t.Total, d.Total)}
}

// Answers is how a route hands answers on.
type Answers string

const (
	AnswersPass  Answers = "pass"  // as they come; a break after the first content is told
	AnswersWhole Answers = "whole" // held back until complete, so that any break is retried elsewhere
)

// Route sends models to backends, in order.
type Route struct {
	Match    string         // a model's name, or a pattern
	Backends []RouteBackend // most wanted first
	Answers  Answers
	NextOn   []string // codes of errors, in lower case, that go on to the next backend; nil = not said
	Attempts int      // of one request at most, over all backends; 0 = what retries allow at each
}

// RouteBackend is a backend's place in a route. Backends of one priority share
// the requests by weight; those of the next are asked when none of them answers.
type RouteBackend struct {
	Name     string
	Priority int // from 1, the lowest is asked first; it does not fall along the list
	Weight   int // relative to the others of its priority; 1 or more
}

// InOrder gives each backend a priority of its own, most wanted first.
func InOrder(names ...string) []RouteBackend {
	list := make([]RouteBackend, len(names))
	for i, name := range names {
		list[i] = RouteBackend{name, i + 1, 1}
	}
	return list
}

// uses reports whether the route has a backend.
func (r *Route) uses(backend string) bool {
	return slices.ContainsFunc(r.Backends, func(b RouteBackend) bool { return b.Name == backend })
}

// MCP lists the tool servers that are guarded.
type MCP struct{ Servers []Server }

// Server is one MCP server: a command, or a URL with an address to serve it on.
type Server struct {
	Name    string // a segment of its circuits' names
	Command []string
	URL     string
	Listener
	Deadline map[string]time.Duration // of calls, by tool; AllTools stands for those that are not named; 0 = none

	path string // in the file
}

// AllTools stands for every tool of a server that is not named beside it.
const AllTools = "*"

// Default returns what holds without a file: everything built in, no backends.
func Default() *Config {
	return &Config{
		Keep: 720 * time.Hour, Sync: SyncNever, Mode: ModeEnforce,
		Gateway:  Listener{Listen: "127.0.0.1:4040"},
		Admin:    Listener{Listen: "127.0.0.1:4041"},
		Thrash:   fusebox.DefaultThrash(),
		Retry:    fusebox.DefaultRetry(),
		circuits: newCircuits(nil, nil),
		at:       map[string]Position{},
	}
}

// Find returns the file that is read where none is named: fusebox.yaml in the
// working directory, then fusebox/fusebox.yaml in $XDG_CONFIG_HOME (by default
// ~/.config). It reports false where there is neither.
func Find() (path string, found bool) {
	places := []string{"fusebox.yaml"}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = ""
		if home, err := os.UserHomeDir(); err == nil {
			dir = filepath.Join(home, ".config")
		}
	}
	if dir != "" {
		places = append(places, filepath.Join(dir, "fusebox", "fusebox.yaml"))
	}
	for _, p := range places {
		if _, err := os.Stat(p); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return p, true
		}
	}
	return "", false
}

// Load reads a configuration file. Every mistake in it is in the [Errors] that
// it returns; a file that cannot be read gives an error that wraps the cause.
func Load(path string) (*Config, error) {
	b, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("config: cannot read the configuration: %w", err)
	}
	c, err := Parse(path, b)
	if err != nil {
		return nil, err
	}
	if err := c.readTexts(path); err != nil {
		return nil, err
	}
	c.relativeSecrets(path)
	return c, nil
}

// readTexts reads the templates of denials that the file names.
func (c *Config) readTexts(file string) error {
	if c.texts == "" {
		return nil
	}
	path := relativeTo(file, c.texts)
	bad := func(problem, do string) error {
		return Errors{{Position: c.at["thrash.texts"], Path: "thrash.texts", Problem: problem, Do: do}}
	}
	b, err := read(path)
	if err != nil {
		return bad("want a file with templates, have "+shown(path)+", which cannot be read",
			"a relative path starts where the configuration file is")
	}
	if c.Thrash.Texts, err = fusebox.ParseTexts(string(b)); err != nil {
		return bad("want templates of denials: "+err.Error(), "mend "+path)
	}
	return nil
}

// read reads a regular file, and no more of it than Parse would look at.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("is a directory")}
	}
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func relativeTo(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// relativeSecrets makes files of secrets relative to the configuration file.
func (c *Config) relativeSecrets(file string) {
	for _, s := range c.secrets() {
		if s.File != "" {
			s.File = relativeTo(file, s.File)
		}
	}
}

// Parse reads a configuration; name stands in messages. It does not look at the
// environment or at other files. Every mistake is in the [Errors] it returns.
func Parse(name string, b []byte) (*Config, error) {
	tree, errs := parseTree(name, b)
	if tree == nil {
		return nil, errs
	}
	c := Default()
	c.File = name
	c.Loaded = time.Now().UTC().Round(0)
	d := &decoder{errs: errs, at: c.at}
	d.config(tree, c)
	if err := d.errs.orNil(); err != nil {
		return nil, err
	}
	return c, nil
}

// Backend returns the backend of that name.
func (c *Config) Backend(name string) (Backend, bool) {
	i := slices.IndexFunc(c.Backends, func(b Backend) bool { return b.Name == name })
	if i < 0 {
		return Backend{}, false
	}
	return c.Backends[i], true
}

// Route returns the first route whose Match covers the model.
func (c *Config) Route(model string) (Route, bool) {
	for _, r := range c.Routes {
		if compilePattern(r.Match).match(model) {
			return r, true
		}
	}
	return Route{}, false
}

// secrets returns every secret that is named, by its path in the file.
func (c *Config) secrets() map[string]*Secret {
	named := map[string]*Secret{}
	add := func(path string, s *Secret) {
		if !s.IsZero() {
			named[path] = s
		}
	}
	add("gateway.token", &c.Gateway.Token)
	add("admin.token", &c.Admin.Token)
	for i := range c.Backends {
		add(c.Backends[i].path+".key", &c.Backends[i].Key)
	}
	for i := range c.MCP.Servers {
		add(c.MCP.Servers[i].path+".token", &c.MCP.Servers[i].Token)
	}
	return named
}
