package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/mcp"
)

// mcpFlags are the flags of mcp.
type mcpFlags struct {
	name, run          string
	repeats            int
	noCircuit, observe bool
	deadlines          []string
	printConfig        string
	url, listen        string
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	c := &cobra.Command{
		Use:   "mcp [flags] (NAME | -- COMMAND… | --url URL)",
		Short: "Stand between an MCP client and its server",
		Long: `Stand between an MCP client and its server: in the client's configuration, put
"fusebox mcp --" before the server's command, or let --print-config write it.
Everything passes through unchanged, but for tool calls that are not worth
making: these are answered with what to do instead.

A server that speaks streamable HTTP is guarded at an address of its own: --url
says where it is, --listen where the guard serves it.

NAME is a server of the configuration file. Tools are the circuits
tool/SERVER/TOOL, the server is server/SERVER.`,
		Example: `  fusebox mcp -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  fusebox mcp --url http://127.0.0.1:9000/mcp --listen 127.0.0.1:4050
  fusebox mcp --print-config claude -- npx -y @modelcontextprotocol/server-memory`,
		RunE: func(c *cobra.Command, args []string) error { return a.mcp(c, &f, args) },
	}
	flags := c.Flags()
	flags.StringVar(&f.url, "url", "", "`URL` of a server that speaks streamable HTTP")
	flags.StringVar(&f.listen, "listen", "", "`ADDRESS` to serve that at; port 0 picks a free one (default 127.0.0.1:4050)")
	flags.StringVar(&f.name, "name", "", "`NAME` of the server in its circuits (default from its command)")
	flags.StringVar(&f.run, "run", "", "`ID` of the run that every call belongs to (default $FUSEBOX_RUN, else what the calls say)")
	flags.IntVar(&f.repeats, "repeats", 0, "so often an exact call may fail in a run; the next is refused (default 3)")
	flags.BoolVar(&f.noCircuit, "no-circuit", false, "look for repeats alone, and let no circuit open")
	flags.BoolVar(&f.observe, "observe", false, "decide and record, but refuse nothing")
	flags.StringArrayVar(&f.deadlines, "deadline", nil, "`TIME` that a call may take, or TOOL=TIME for one tool; below the client's own limit")
	flags.StringVar(&f.printConfig, "print-config", "",
		"print what to paste into a `CLIENT`'s configuration ("+strings.Join(mcp.Clients(), ", ")+"), for all servers of the configuration file unless one is named")
	return c
}

func (a *app) mcp(c *cobra.Command, f *mcpFlags, args []string) error {
	conf, err := a.config()
	if err != nil {
		return err
	}
	if f.printConfig != "" && len(args) == 0 && f.url == "" && c.ArgsLenAtDash() < 0 && len(conf.MCP.Servers) > 0 {
		return a.printSnippet(c, f, conf, conf.MCP.Servers...)
	}
	server, err := mcpServer(c, f, conf, args)
	if err != nil {
		return err
	}
	if f.printConfig != "" {
		return a.printSnippet(c, f, conf, server)
	}
	deadline, err := deadlines(server.Deadline, f.deadlines)
	if err != nil {
		return err
	}
	if c.Flags().Changed("repeats") {
		conf.Thrash.Repeats = f.repeats
		if err := conf.Thrash.Validate(); err != nil {
			return usagef("--repeats: %w", err)
		}
	}
	if f.observe {
		conf.Mode = config.ModeObserve
	}
	store := a.storeForGuard(c.Context())
	if store != nil {
		defer store.Close()
	}
	a.hush()
	box, err := a.newBox(conf, conf.Policy, store)
	if err != nil {
		return err
	}
	defer a.closeBox(box)
	circuits := box
	if f.noCircuit { // others that share the store have theirs, by policies and evidence of their own
		if circuits, err = a.newBox(conf, withoutRules(conf.Policy), nil); err != nil {
			return err
		}
		defer a.closeBox(circuits)
	}
	guard, err := mcp.New(mcp.Config{Box: box, Circuits: circuits, Server: server.Name,
		Run: firstOf(f.run, os.Getenv("FUSEBOX_RUN")), Deadline: deadline, Logger: a.log})
	if err != nil {
		return usagef("%w", err)
	}
	defer guard.Close()
	if server.URL != "" {
		return a.guardURL(c.Context(), guard, server)
	}
	return a.guardCommand(guard, server.Command)
}

// guardCommand stands between standard input and output and a command.
func (a *app) guardCommand(guard *mcp.Guard, command []string) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	broken := make(chan os.Signal, 1) // a client that is gone is to be seen as an error, not as our end
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	code, err := guard.Stdio(mcp.Stdio{Command: command, In: a.stdin, Out: a.stdout, Err: a.stderr, Signals: signals})
	if err != nil {
		return err
	}
	if code != 0 {
		return exitWith(code)
	}
	return nil
}

// mcpServer is the server that the command line or the configuration names.
func mcpServer(c *cobra.Command, f *mcpFlags, conf *config.Config, args []string) (config.Server, error) {
	dash := c.ArgsLenAtDash()
	switch {
	case f.url != "" && len(args) > 0:
		return config.Server{}, usagef("want --url or a command, have both")
	case f.url != "":
		return urlServer(f)
	case f.listen != "":
		return config.Server{}, usagef("--listen goes with --url")
	case dash == 0 && len(args) > 0 && args[0] != "":
		return config.Server{Name: firstOf(f.name, mcp.NameOf(args)), Command: args}, nil
	case dash == 0:
		return config.Server{}, usagef("after -- comes the server's command")
	case len(args) == 0:
		return config.Server{}, usagef("say which server: -- and its command, or the name of one in the configuration file")
	case len(args) > 1 || dash > 0:
		return config.Server{}, usagef("want the name of one server, or -- before a command: fusebox mcp -- %s", strings.Join(args, " "))
	}
	var names []string
	for _, s := range conf.MCP.Servers {
		if s.Name == args[0] {
			s.Name = firstOf(f.name, s.Name)
			return s, nil
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return config.Server{}, usagef("no server %s: there are none in the configuration; a command comes after --", args[0])
	}
	return config.Server{}, usagef("no server %s in %s; it has %s", args[0], conf.File, strings.Join(names, ", "))
}

// defaultListen is where a server with a URL is served.
const defaultListen = "127.0.0.1:4050"

// urlServer is the server that --url names.
func urlServer(f *mcpFlags) (config.Server, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return config.Server{}, usagef("--url %s: want one such as http://127.0.0.1:9000/mcp", f.url)
	}
	s := config.Server{Name: firstOf(f.name, mcp.NameOf([]string{u.Hostname()})), URL: f.url}
	s.Listen = firstOf(f.listen, defaultListen)
	if err := s.Listener.Validate(); err != nil {
		return s, usagef("--listen: %w; a token comes from the configuration: mcp: {servers: {…}}", err)
	}
	return s, nil
}

// guardURL serves a server with a URL until it is told to stop.
func (a *app) guardURL(ctx context.Context, guard *mcp.Guard, server config.Server) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if server.Listen == "" {
		server.Listen = defaultListen
	}
	token, err := getter(server.Token)
	if err != nil {
		return err
	}
	handler, err := guard.Handler(mcp.HTTP{URL: server.URL, Listen: server.Listen, Token: token})
	if err != nil {
		return &exitError{exitConfig, err}
	}
	listener, err := net.Listen("tcp", server.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another with --listen, port 0 picks a free one", server.Listen, err)
	}
	served := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { failed <- served.Serve(listener) }()
	if err := a.announceServer(server, listener.Addr().String()); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends it at once
	ctx, cancel := context.WithTimeout(context.Background(), mcpDrain)
	defer cancel()
	if served.Shutdown(ctx) != nil { // streams stay open for as long as a client listens
		return served.Close()
	}
	return nil
}

// mcpDrain is how long calls may go on once the guard was told to stop.
const mcpDrain = 3 * time.Second

// announceServer prints the first line: programs read the address from it.
func (a *app) announceServer(server config.Server, address string) error {
	at := guardedURL(server, address)
	if a.json {
		return a.printJSON(map[string]string{"url": at})
	}
	_, err := fmt.Fprintf(a.stdout, "fusebox guards %s at %s\n", server.Name, at)
	return err
}

// guardedURL is where clients reach a server with a URL.
func guardedURL(server config.Server, address string) string {
	u, err := url.Parse(server.URL)
	if err != nil {
		return "http://" + address
	}
	return "http://" + address + u.EscapedPath()
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// storeForGuard opens the store, or goes on without one: a guard must not be
// what keeps a client from its server.
func (a *app) storeForGuard(ctx context.Context) fusebox.Store {
	store, err := a.openStore(ctx)
	if err != nil {
		a.log.Warn("circuits are not shared and not kept: the store cannot be opened", "error", err)
		return nil
	}
	return store
}

// hush keeps standard error for the server's own words: what the guard decides
// is in its answers and in the store.
func (a *app) hush() {
	if !a.verbose {
		a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	}
}

// closeBox reports what the store does not know yet.
func (a *app) closeBox(box *fusebox.Box) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := box.Close(ctx); err != nil {
		a.log.Warn("evidence was not recorded", "error", err)
	}
}

// withoutRules keeps circuits from opening.
func withoutRules(policy func(string) fusebox.Policy) func(string) fusebox.Policy {
	return func(circuit string) fusebox.Policy {
		p := policy(circuit)
		if p.IsZero() {
			p = fusebox.DefaultPolicy(fusebox.Kind(circuit))
		}
		p.Trip, p.OnClass = []fusebox.Trip{}, nil
		return p
	}
}

// deadlines are the time limits of calls: those of the configuration, and on top
// of them the given ones, "50s" for all tools that have none of their own and
// "search=5s" for one.
func deadlines(configured map[string]time.Duration, given []string) (func(tool string) time.Duration, error) {
	limits := map[string]time.Duration{}
	maps.Copy(limits, configured)
	for _, g := range given {
		tool, text, one := strings.Cut(g, "=")
		if !one {
			tool, text = config.AllTools, g
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, usagef("--deadline %s: want a time such as 50s, or TOOL=50s", g)
		}
		limits[tool] = d
	}
	return func(tool string) time.Duration {
		if d, ok := limits[tool]; ok {
			return d
		}
		return limits[config.AllTools]
	}, nil
}

// printSnippet prints what to paste into a client's configuration.
func (a *app) printSnippet(c *cobra.Command, f *mcpFlags, conf *config.Config, servers ...config.Server) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var entries []mcp.Entry
	for _, s := range servers {
		e := mcp.Entry{Name: s.Name, Command: append([]string{program}, guardArguments(c, conf, s)...)}
		if s.URL != "" {
			e.URL = guardedURL(s, firstOf(s.Listen, defaultListen))
		}
		entries = append(entries, e)
	}
	snippet, err := mcp.Snippet(f.printConfig, entries...)
	if err != nil {
		return usagef("--print-config: %w", err)
	}
	a.printf("%s", snippet)
	return nil
}

// notInSnippet are flags that are about this call of the program alone, or that
// are written otherwise.
var notInSnippet = []string{"print-config", "name", "json", "config"}

// guardArguments is this command line as a client is to give it, for one server:
// the client runs it in a folder of its own.
func guardArguments(c *cobra.Command, conf *config.Config, server config.Server) []string {
	args := []string{"mcp"}
	flags := c.Flags()
	command := c.ArgsLenAtDash() == 0
	if command || flags.Changed("name") {
		args = append(args, "--name", server.Name)
	}
	if !command || flags.Changed("config") {
		if path, err := filepath.Abs(conf.File); err == nil {
			args = append(args, "--config", path)
		}
	}
	flags.Visit(func(f *pflag.Flag) {
		switch list, isList := f.Value.(pflag.SliceValue); {
		case slices.Contains(notInSnippet, f.Name):
		case isList:
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name, v)
			}
		case f.Value.Type() == "bool":
			args = append(args, "--"+f.Name)
		default:
			args = append(args, "--"+f.Name, f.Value.String())
		}
	})
	switch {
	case command:
		return append(append(args, "--"), server.Command...)
	case flags.NArg() == 0: // one of all that the configuration has
		return append(args, server.Name)
	}
	return append(args, flags.Args()...)
}
