package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/config"
)

// app is what the commands share: the streams and the flags that all have.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	configFile string
	storeURL   string
	json       bool
	verbose    bool

	loaded *config.Config // see config

	log *slog.Logger // to stderr: warnings, and everything with -v

	started bool // a command's own code runs: from here on errors are not about usage
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		code = exit.code
	case !a.started:
		code = exitUsage
	}
	a.reportError(command, code, err)
	return code
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "fusebox",
		Short: "Decide whether an attempt is worth making, and say what to do when it is not",
		Long: `fusebox stands between agents and what they call: model APIs, tools, whole
sessions. It counts the evidence, opens a circuit when something is down, and
tells the caller what to do instead.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.start,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration `FILE` (default fusebox.yaml here, then $XDG_CONFIG_HOME/fusebox/fusebox.yaml)")
	flags.StringVar(&a.storeURL, "store", "", "where circuits live, as a `URL`: file:///dir or redis://host:6379/0 (default $FUSEBOX_STORE, the configuration's, $XDG_STATE_HOME/fusebox)")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say more on standard error")
	add := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, c := range commands {
			c.GroupID = title
			root.AddCommand(c)
		}
	}
	add("Guard what agents call:", a.upCommand(), a.mcpCommand(), a.runCommand(), a.pickCommand(), a.recordCommand())
	add("See what is known:", a.doctorCommand(), a.statusCommand(), a.whyCommand(), a.eventsCommand(), a.routeCommand())
	add("Decide by hand:", a.tripCommand(), a.resetCommand(), a.holdCommand(), a.throttleCommand())
	add("Find the right policy:", a.replayCommand(), a.simulateCommand(), a.tuneCommand(), a.demoCommand())
	root.AddCommand(a.configCommand(), a.versionCommand())
	addCompletion(root)
	return root
}

// addCompletion adds cobra's own command; alone it shows its help, and a shell
// that it does not know is a usage error.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = showHelp
		}
	}
}

// start runs before every command, once its flags and arguments have been read.
func (a *app) start(*cobra.Command, []string) error {
	a.started = true
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// group makes a command that only holds others: alone it shows its help, and a
// word that is none of its commands is a usage error.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: showHelp}
	g.AddCommand(commands...)
	return g
}

func showHelp(c *cobra.Command, _ []string) error { return c.Help() }
