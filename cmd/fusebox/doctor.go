package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
	"github.com/fusebox-go/fusebox/filestore"
	"github.com/fusebox-go/fusebox/session"
)

func (a *app) doctorCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show every backend and circuit, and what is wrong",
		Long: `Show every backend and circuit: unknown apart from down, up, throttled and held;
failures, latency, when it was last checked and its last error; lines of the log
that could not be read; and each policy in words, with what its threshold comes
to over the workers that were seen lately.

It only reads. With --check it also asks each backend for its list of models,
which costs nothing, and records what that showed.

The exit code is 1 when something is down, or did not answer a check.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.doctor(c.Context(), check) },
	}
	c.Flags().BoolVar(&check, "check", false, "ask each backend something free, and record the result")
	return c
}

func (a *app) doctor(ctx context.Context, check bool) error {
	c, err := a.servedConfig(check)
	if err != nil {
		return err
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	var checks map[string]backendCheck
	if check {
		if checks, err = a.checkBackends(ctx, c, store); err != nil {
			return err
		}
	}
	d, err := a.diagnose(ctx, c, store)
	if err != nil {
		return err
	}
	d.addChecks(checks)
	if a.json {
		err = a.printJSON(d)
	} else {
		a.printDiagnosis(d)
	}
	if err == nil && d.Down {
		err = exitWith(exitFailed)
	}
	return err
}

// diagnosis is what doctor finds.
type diagnosis struct {
	Store     string              `json:"store"`
	Down      bool                `json:"down"` // something is, or did not answer a check
	Backends  []backendDiagnosis  `json:"backends"`
	Circuits  []circuitDiagnosis  `json:"circuits"`
	Runs      []fusebox.RunStatus `json:"runs"`
	Workers   []string            `json:"workers"`   // that reported lately
	Malformed int                 `json:"malformed"` // lines of the logs that are no records
}

// circuitDiagnosis is a circuit's status and what doctor adds to it.
type circuitDiagnosis struct {
	fusebox.Status
	circuitFindings
}

type circuitFindings struct {
	Condition  string   `json:"condition"`
	Words      []string `json:"policy"`
	Differs    bool     `json:"policy_differs"` // from what the configuration here says
	Malformed  int      `json:"malformed"`
	Problems   []string `json:"problems,omitempty"` // of its files: the first few
	Unreported int      `json:"unreported"`         // processes whose guards are gone without a report
	thresholds
}

// MarshalJSON writes the status object with the findings among its fields.
func (c circuitDiagnosis) MarshalJSON() ([]byte, error) {
	status, err := json.Marshal(c.Status)
	if err != nil {
		return nil, err
	}
	findings, err := json.Marshal(c.circuitFindings)
	if err != nil {
		return nil, err
	}
	return slices.Concat(bytes.TrimSuffix(status, []byte("}")), []byte(","), findings[1:]), nil
}

func (a *app) diagnose(ctx context.Context, c *config.Config, store fusebox.Store) (*diagnosis, error) {
	report, err := fusebox.ReadReport(ctx, store)
	if err != nil {
		return nil, err
	}
	address, err := a.storeAddress(c)
	if err != nil {
		return nil, err
	}
	d := &diagnosis{Store: address.String(), Backends: []backendDiagnosis{}, Circuits: []circuitDiagnosis{},
		Runs: report.Runs, Workers: []string{}}
	for _, s := range report.Circuits {
		found, workers, err := diagnoseCircuit(ctx, c, store, s)
		if err != nil {
			return nil, err
		}
		d.Circuits = append(d.Circuits, found)
		d.Malformed += found.Malformed
		d.Workers = append(d.Workers, workers...)
		d.Down = d.Down || s.Health == fusebox.Down
	}
	for _, b := range c.Backends {
		d.Backends = append(d.Backends, diagnoseBackend(b, d.Circuits))
	}
	slices.Sort(d.Workers)
	d.Workers = slices.Compact(d.Workers)
	return d, nil
}

// diagnoseCircuit reads a circuit's whole log, and tells who reported lately.
func diagnoseCircuit(ctx context.Context, c *config.Config, store fusebox.Store, s fusebox.Status) (d circuitDiagnosis, workers []string, err error) {
	log, err := readLog(ctx, store, s.Circuit, time.Now())
	if err != nil {
		return d, nil, err
	}
	d = circuitDiagnosis{Status: s, circuitFindings: circuitFindings{
		Condition: conditionOf(&s), Words: s.Policy.Words(), Malformed: log.malformed,
		Differs:    c.Names(s.Circuit) && !c.Policy(s.Circuit).Equal(s.Policy),
		Unreported: len(log.starts.Unreported(workerName(c))),
		thresholds: thresholdsOf(s.Policy, len(log.workers)),
	}}
	d.Problems, err = problems(ctx, store, s.Circuit)
	return d, log.workers, err
}

// lately is how far back a worker counts as one that reports.
const lately = time.Hour

// logFindings is what a circuit's whole log tells beyond its state.
type logFindings struct {
	workers   []string       // that reported lately
	malformed int            // lines that are no records
	starts    session.Starts // processes that were started
}

func readLog(ctx context.Context, store fusebox.Store, circuit string, now time.Time) (logFindings, error) {
	var found logFindings
	for e, err := range store.Evidence(ctx, circuit, time.Time{}) {
		switch {
		case errors.Is(err, fusebox.ErrMalformed):
			found.malformed++
			continue
		case err != nil:
			return found, err
		}
		found.starts.Add(e)
		if e.Worker != "" && e.Kind == fusebox.KindEvidence && e.At.After(now.Add(-lately)) && !slices.Contains(found.workers, e.Worker) {
			found.workers = append(found.workers, e.Worker)
		}
	}
	return found, nil
}

// maxProblems is how many problems of a circuit's files are told one by one.
const maxProblems = 5

// problems are what is wrong with a circuit's files, where the store has files.
func problems(ctx context.Context, store fusebox.Store, circuit string) ([]string, error) {
	files, ok := store.(*filestore.Store)
	if !ok {
		return nil, nil
	}
	report, err := files.Inspect(ctx, circuit)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, problem := range report.Problems[:min(len(report.Problems), maxProblems)] {
		words = append(words, problem.Error())
	}
	return words, nil
}

func (a *app) printDiagnosis(d *diagnosis) {
	now := time.Now()
	a.printf("store %s\n\n", d.Store)
	if len(d.Backends) > 0 {
		a.printTable(backendTable(d.Backends, now))
		for _, b := range d.Backends {
			if b.Check != nil && !b.Check.OK {
				a.printf("%s: the check failed: %s\n", b.Backend, printable(b.Check.Error))
			}
			if b.Do != "" {
				a.printf("%s: %s\n", b.Backend, printable(b.Do))
			}
		}
		a.printf("\n")
	}
	if len(d.Circuits) == 0 {
		a.printf("No circuit has any evidence yet: everything is unknown, and usable.\n")
	} else {
		statuses := make([]fusebox.Status, len(d.Circuits))
		for i := range d.Circuits {
			statuses[i] = d.Circuits[i].Status
		}
		a.printTable(circuitTable(statuses, now))
	}
	if len(d.Runs) > 0 {
		a.printf("\n")
		a.printTable(runTable(d.Runs, now))
	}
	a.printPolicies(d.Circuits)
	for _, c := range d.Circuits {
		switch {
		case c.Malformed > 0:
			a.printf("\n%s: %s skipped\n", printable(c.Circuit), countOf(c.Malformed, "malformed line"))
		case len(c.Problems) > 0:
			a.printf("\n%s: what cannot be read of its files is left out\n", printable(c.Circuit))
		}
		for _, problem := range c.Problems {
			a.printf("  %s\n", printable(problem))
		}
		if c.Unreported > 0 {
			a.printf("\n%s: %s unreported: the guard was killed before the end\n", c.Circuit, countOf(c.Unreported, "start"))
		}
	}
	for _, c := range d.Circuits {
		if c.Differs {
			a.printf("\n%s: its policy is not that of the configuration here: its workers were started with another\n", printable(c.Circuit))
		}
		if c.Local {
			a.printf("\n%s: the store is out of reach, local since %s\n", c.Circuit, clock(c.LocalSince))
		}
	}
}

// printPolicies says each policy in words once, for all circuits that have it.
func (a *app) printPolicies(circuits []circuitDiagnosis) {
	type user struct {
		words string
		names []string
	}
	var users []user
	for _, c := range circuits {
		words := "  " + strings.Join(c.Words, "\n  ")
		if threshold := c.thresholds.words(); threshold != "" {
			words += "\n  " + threshold
		}
		i := slices.IndexFunc(users, func(u user) bool { return u.words == words })
		if i < 0 {
			i = len(users)
			users = append(users, user{words: words})
		}
		users[i].names = append(users[i].names, printable(c.Circuit))
	}
	for _, u := range users {
		a.printf("\n%s\n%s\n", a.paint(bold, strings.Join(u.names, ", ")), u.words)
	}
}
