package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/config"
)

const (
	workerTime = 5 * time.Second // for a worker's whole answer
	maxReport  = 64 << 20        // bytes of it
)

// askWorker returns what a worker knows, from its admin listener: all circuits,
// or the named ones. It gives the configuration's admin token.
func askWorker(ctx context.Context, c *config.Config, from string, names []string) (fusebox.Report, error) {
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fusebox.Report{}, usagef("--from: want the address of a worker's admin listener, such as http://127.0.0.1:4041")
	}
	report, err := getReport(ctx, c, u.JoinPath("/v1/circuits"))
	if err != nil {
		return fusebox.Report{}, fmt.Errorf("ask the worker at %s: %w", u, err)
	}
	if len(names) > 0 {
		report.Circuits = named(report.Circuits, names)
		report.Runs = []fusebox.RunStatus{}
	}
	return report, nil
}

func getReport(ctx context.Context, c *config.Config, u *url.URL) (report fusebox.Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return report, err
	}
	token, err := getter(c.Admin.Token)
	if err != nil {
		return report, err
	}
	if token != nil {
		request.Header.Set("Authorization", "Bearer "+token())
	}
	client := http.Client{Timeout: workerTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it sends elsewhere, and is no admin listener") // which must not get the token
	}}
	answer, err := client.Do(request)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // which does not name the address again
		}
		return report, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxReport))
	if err != nil {
		return report, err
	}
	if answer.StatusCode != http.StatusOK {
		var failed struct{ Error struct{ Message string } }
		_ = json.Unmarshal(body, &failed) // without a message the status says it
		return report, errors.New(strings.TrimSuffix(answer.Status+": "+printable(failed.Error.Message), ": "))
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return report, fmt.Errorf("its answer is not that of an admin listener: %w", err)
	}
	if report.Circuits == nil { // a gateway passes the question on to a backend
		return report, errors.New("its answer is not that of an admin listener: up names that address after the gateway's")
	}
	return report, nil
}

// named picks circuits by name, in that order; of one that is not among them
// nothing is known.
func named(circuits []fusebox.Status, names []string) []fusebox.Status {
	picked := make([]fusebox.Status, len(names))
	for i, name := range names {
		if at := slices.IndexFunc(circuits, func(s fusebox.Status) bool { return s.Circuit == name }); at >= 0 {
			picked[i] = circuits[at]
		} else {
			picked[i] = new(fusebox.State).StatusAt(name, time.Now())
		}
	}
	return picked
}
