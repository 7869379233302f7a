package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why CIRCUIT",
		Short: "Show the records that put a circuit where it is",
		Long: `Show the records that put a circuit where it is. The log is read back and folded
again, so what is shown is what was decided. With -v also the records that did
not count.`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeCircuits,
		RunE: func(c *cobra.Command, args []string) error {
			names, err := canonicalNames(args)
			if err != nil {
				return err
			}
			store, err := a.openStore(c.Context())
			if err != nil {
				return err
			}
			defer store.Close()
			x, err := explain(c.Context(), store, names[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(x)
			}
			a.printExplanation(x)
			return nil
		},
	}
}

func (a *app) printExplanation(x *explanation) {
	s := &x.Status
	condition := conditionOf(s)
	a.printf("%s is %s (%s)\n", a.paint(bold, s.Circuit), a.paint(conditionColours[condition], condition), phaseWords(s, time.Now()))
	if s.Reason != "" {
		a.printf("because: %s, since %s (version %d)\n", printable(s.Reason), clock(s.Since), s.Version)
	}
	for i := range s.Hosts {
		h := &s.Hosts[i]
		a.printf("for %s alone it is %s: %s, the last: %s\n", printable(h.Host), ownPhaseWords(h), countOf(h.Failures, "failure"), printable(h.LastError))
	}
	a.printf("policy: %s\n", strings.Join(x.Policy, "; "))
	if len(x.Records) == 0 {
		a.printf("No evidence: what is unknown is usable.\n")
	}
	t, quiet := &table{}, 0
	t.row(" ", "AT", "WHAT", "TOOK", "WORKER", "EFFECT", "ERROR")
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Counted && !a.verbose {
			quiet++
			continue
		}
		mark := cell{" ", plain}
		if r.Counted {
			mark = cell{"*", bold}
		}
		took := ""
		if r.Event.Elapsed > 0 {
			took = roughly(r.Event.Elapsed)
		}
		t.row(mark, clock(r.Event.At), eventWords(&r.Event), took, r.Event.Worker, r.Effect, r.Event.Error)
	}
	if len(t.rows) > 1 {
		a.printf("\n")
		a.printTable(t)
		a.printf("\n* counted\n")
	}
	if quiet+x.Omitted > 0 {
		a.printf("%s did not count or came before", countOf(quiet+x.Omitted, "record"))
		if !a.verbose {
			a.printf("; -v shows them")
		}
		a.printf("\n")
	}
	if x.Malformed > 0 {
		a.printf("%s skipped\n", countOf(x.Malformed, "malformed line"))
	}
}

// transitionWords says which phase follows which, and for whom alone, if a
// host's own circuit has moved.
func transitionWords(from, to fusebox.Phase, host string) string {
	if host != "" {
		return fmt.Sprintf("%s → %s for %s alone", from, to, host)
	}
	return fmt.Sprintf("%s → %s", from, to)
}

// eventWords says what a record is.
func eventWords(e *fusebox.Event) string {
	switch e.Kind {
	case fusebox.KindEvidence:
		text := e.Outcome.String()
		if e.Class != "" {
			text += " " + string(e.Class)
		}
		if e.N > 1 {
			text = fmt.Sprintf("%d × %s", e.N, text)
		}
		if e.Lease != "" {
			text += " (probe)"
		}
		if e.Overdue {
			text += " (overdue)"
		}
		return text
	case fusebox.KindDenied:
		text := fmt.Sprintf("denied (%s)", e.Reason)
		if e.Observed {
			text = fmt.Sprintf("would deny (%s)", e.Reason)
		}
		if e.N > 1 {
			text = fmt.Sprintf("%d × %s", e.N, text)
		}
		return text
	case fusebox.KindLease:
		text := "probe " + e.Action
		if e.LastResort {
			text = "last resort " + e.Action
		}
		return text
	case fusebox.KindTransition:
		return transitionWords(e.From, e.Phase, e.Worker)
	case fusebox.KindHold:
		if e.Action == fusebox.ActionLifted {
			return "hold lifted"
		}
		return "held " + e.Phase.String()
	}
	return string(e.Kind)
}

// countOf is "1 record" or "3 records".
func countOf(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
