package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/replay"
)

func (a *app) replayCommand() *cobra.Command {
	var circuit string
	var seed uint64
	var try *whatIf
	c := &cobra.Command{
		Use:   "replay [policy flags] FILE…",
		Short: "Say what a policy would have done to the calls of a log",
		Long: `replay reads evidence logs, "-" being standard input, and says what another
policy would have done: when it would have opened the circuit, what it would
have spared and what it would have refused. A recorded call starts at at-ms and
ends at at; the circuit is asked at the start and told the result at the end.

The policy starts bare: what no flag says is not there, but that a failure of
class auth opens at once. With --config it starts from the circuit's own.`,
		Example: `  fusebox replay --trip count=3,within=60m --cooldown 1h session.jsonl
  fusebox replay --trip streak=5 --cooldown 30s --circuit model/paid/gpt-5 --json - < all.jsonl`,
		Args: arguments(1, anyNumber),
		RunE: func(c *cobra.Command, files []string) error {
			if err := try.read(c); err != nil {
				return err
			}
			if circuit != "" {
				names, err := canonicalNames([]string{circuit})
				if err != nil {
					return err
				}
				circuit = names[0]
			}
			if try.file == nil {
				a.warnOfGaps(c.Flags())
			}
			return a.replay(files, replay.Options{Policy: try.policy, Circuit: circuit, Seed: seed})
		},
	}
	try = a.whatIf(c, config.BarePolicy())
	c.Flags().StringVar(&circuit, "circuit", "", "replay this `NAME` alone; also the name of records that carry none")
	c.Flags().Uint64Var(&seed, "seed", 1, "decides on the jitter of cooldowns")
	return c
}

// warnOfGaps says what a bare policy lacks, that its author may have forgotten.
func (a *app) warnOfGaps(given *pflag.FlagSet) {
	if !given.Changed("trip") {
		a.warnf("no --trip: only a failure of class auth opens a circuit")
		return
	}
	if !given.Changed("cooldown") && !given.Changed("cooldown-calls") {
		a.warnf("no --cooldown and no --cooldown-calls: the next call after opening is the probe already")
	}
}

// replay replays files and prints each transition as it comes, then the summaries.
func (a *app) replay(files []string, o replay.Options) (err error) {
	out := bufio.NewWriter(a.stdout)
	defer func() {
		if flushed := out.Flush(); err == nil {
			err = flushed
		}
	}()
	progress := a.newProgress(files)
	o.Progress = progress.replayed
	o.Changed = func(t fusebox.Transition) error {
		progress.clear()
		var err error
		if a.json {
			_, err = out.Write(replay.AppendTransition(nil, t))
		} else {
			_, err = fmt.Fprintf(out, "%s  %s  %s → %s%s\n", t.At.Format(time.RFC3339Nano),
				shown(t.Circuit), t.From, t.To, openedBy(t))
		}
		return err
	}
	log := replay.NewLog(o)
	defer log.Close()
	for _, file := range files {
		if err := a.readLog(file, log, progress); err != nil {
			return err
		}
	}
	report, err := log.Replay()
	progress.clear()
	if err != nil {
		return err
	}
	if a.json {
		_, err = out.Write(report.AppendLines(nil))
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	a.printReplay(&report)
	return nil
}

// readLog reads one file, or standard input.
func (a *app) readLog(file string, log *replay.Log, p *progress) error {
	if file == "-" {
		return log.Read(p.reading(a.stdin))
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	return log.Read(p.reading(f))
}

// openedBy says what opened a circuit.
func openedBy(t fusebox.Transition) string {
	if t.From != fusebox.Closed || t.To != fusebox.Open {
		return ""
	}
	return fmt.Sprintf("  (%d counted: %s)", t.Failures, t.Cause)
}

func (a *app) printReplay(r *replay.Report) {
	t := &table{}
	t.row("CIRCUIT", "CALLS", "ADMITTED", "DENIED", "FAILED", "SPARED", "GOOD DENIED", "OPENED", "PROBES", "FAILED")
	for _, s := range r.Summaries {
		t.row(s.Circuit, s.Calls, s.Admitted, s.Denied, s.FailuresSeen, s.FailuresSpared, s.SuccessesDenied, s.Opened, s.Probes, s.ProbesFailed)
	}
	a.printTable(t)
	if r.Malformed > 0 {
		a.printf("malformed lines, skipped: %d\n", r.Malformed)
	}
}

// progress tells on a terminal's standard error how far a replay is.
type progress struct {
	to    io.Writer // nil = nobody looks
	read  int64
	size  int64 // of all files together; 0 = unknown
	last  time.Time
	shown bool
}

func (a *app) newProgress(files []string) *progress {
	p := &progress{last: time.Now()}
	if isTerminal(a.stderr) {
		p.to = a.stderr
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if file == "-" || err != nil || !info.Mode().IsRegular() {
			p.size = 0
			break
		}
		p.size += info.Size()
	}
	return p
}

// reading returns r, counted.
func (p *progress) reading(r io.Reader) io.Reader {
	if p.to == nil {
		return r
	}
	return io.TeeReader(r, p)
}

// Write counts what was read.
func (p *progress) Write(b []byte) (int, error) {
	p.read += int64(len(b))
	const mega = 1e6
	if p.size > 0 {
		p.say("read %.0f of %.0f MB", float64(p.read)/mega, float64(p.size)/mega)
	} else {
		p.say("read %.0f MB", float64(p.read)/mega)
	}
	return len(b), nil
}

func (p *progress) replayed(done, all int64) {
	p.say("replayed %d %% of %d records", done*100/max(all, 1), all)
}

// say shows a line in the place of the one before, a few times a second.
func (p *progress) say(format string, args ...any) {
	if p.to == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.to, "\r\x1b[K"+format, args...)
}

// clear removes the line, so that something else can be printed.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}
