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

It tells whether the store answers, and how fast; who uses it, in which version
and since when; who was or is without the store; and which workers have another
policy for a circuit than the store keeps, and in what it differs.

It only reads. With --check it also asks each backend for its list of models,
which costs nothing, and records what that showed.

The exit code is 1 when something is down, or the store or a backend that was
asked did not answer.`,
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
	Store     *fusebox.StoreStatus `json:"store"`
	Down      bool                 `json:"down"` // something is, or did not answer
	Backends  []backendDiagnosis   `json:"backends"`
	Circuits  []circuitDiagnosis   `json:"circuits"`
	Runs      []fusebox.RunStatus  `json:"runs"`
	Workers   []fusebox.Worker     `json:"workers"`   // that are there, or reported lately
	Malformed int                  `json:"malformed"` // lines of the logs that are no records
}

// now is the time by which the diagnosis is to be read: the store's.
func (d *diagnosis) now() time.Time { return clockOf(d.Store) }

// circuitDiagnosis is a circuit's status and what doctor adds to it.
type circuitDiagnosis struct {
	fusebox.Status
	circuitFindings
}

type circuitFindings struct {
	Condition   string            `json:"condition"`
	Words       []string          `json:"policy"`
	Fingerprint string            `json:"policy_fingerprint"`
	Differs     bool              `json:"policy_differs"`              // from what the configuration here says
	Differing   []differingWorker `json:"differing_workers,omitempty"` // whose configuration says something else
	Malformed   int               `json:"malformed"`
	Problems    []string          `json:"problems,omitempty"` // of its files: the first few
	Unreported  int               `json:"unreported"`         // processes whose guards are gone without a report
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
	if err != nil && report.Store.Answers {
		return nil, err
	}
	d := &diagnosis{Store: report.Store, Down: !report.Store.Answers, Backends: []backendDiagnosis{}, Circuits: []circuitDiagnosis{},
		Runs: report.Runs}
	fleet := newFleet(report.Workers)
	for _, s := range report.Circuits {
		found, reporters, err := diagnoseCircuit(ctx, c, store, s)
		if err != nil {
			return nil, err
		}
		fleet.reported(s.Circuit, reporters)
		d.Circuits = append(d.Circuits, found)
		d.Malformed += found.Malformed
		d.Down = d.Down || s.Health == fusebox.Down || len(s.Hosts) > 0 // for all, or for a host alone
	}
	shared, err := a.sharesMachines(c)
	if err != nil {
		return nil, err
	}
	d.Workers = append([]fusebox.Worker{}, fleet.workers...)
	for i := range d.Circuits {
		found := &d.Circuits[i]
		found.thresholds = thresholdsOf(found.Policy, fleet.count(found.Circuit), shared)
		found.Differing = differing(fleet.workers, found.Circuit, found.Policy)
	}
	for _, b := range c.Backends {
		d.Backends = append(d.Backends, diagnoseBackend(b, d.Circuits))
	}
	return d, nil
}

// diagnoseCircuit reads a circuit's whole log, and tells who reported lately.
func diagnoseCircuit(ctx context.Context, c *config.Config, store fusebox.Store, s fusebox.Status) (d circuitDiagnosis, reporters map[string]time.Time, err error) {
	log, err := readLog(ctx, store, s.Circuit, time.Now())
	if err != nil {
		return d, nil, err
	}
	d = circuitDiagnosis{Status: s, circuitFindings: circuitFindings{
		Condition: conditionOf(&s), Words: s.Policy.Words(), Fingerprint: s.Policy.Fingerprint(), Malformed: log.malformed,
		Differs:    c.Names(s.Circuit) && !c.Policy(s.Circuit).Equal(s.Policy),
		Unreported: len(log.starts.Unreported(workerName(c))),
	}}
	d.Problems, err = problems(ctx, store, s.Circuit)
	return d, log.reporters, err
}

// lately is how far back a worker counts as one that reports.
const lately = time.Hour

// logFindings is what a circuit's whole log tells beyond its state.
type logFindings struct {
	reporters map[string]time.Time // who reported lately, and when
	malformed int                  // lines that are no records
	starts    session.Starts       // processes that were started
}

func readLog(ctx context.Context, store fusebox.Store, circuit string, now time.Time) (logFindings, error) {
	found := logFindings{reporters: map[string]time.Time{}}
	for e, err := range store.Evidence(ctx, circuit, time.Time{}) {
		switch {
		case errors.Is(err, fusebox.ErrMalformed):
			found.malformed++
			continue
		case err != nil:
			return found, err
		}
		found.starts.Add(e)
		if e.Worker != "" && e.Kind == fusebox.KindEvidence && e.At.After(now.Add(-lately)) && e.At.After(found.reporters[e.Worker]) {
			found.reporters[e.Worker] = e.At
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
	now := d.now()
	a.printStore(d.Store)
	a.printf("\n")
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
	switch {
	case len(d.Circuits) > 0:
		statuses := make([]fusebox.Status, len(d.Circuits))
		for i := range d.Circuits {
			statuses[i] = d.Circuits[i].Status
		}
		a.printTable(circuitTable(statuses, now))
	case d.Store.Answers:
		a.printf("No circuit has any evidence yet: everything is unknown, and usable.\n")
	}
	if len(d.Runs) > 0 {
		a.printf("\n")
		a.printTable(runTable(d.Runs, now))
	}
	if len(d.Workers) > 0 {
		a.printf("\n")
		a.printWorkers(d.Workers, now)
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
	}
	a.printDiffering(d.Circuits)
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
