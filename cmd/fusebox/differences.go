package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// differingWorker is one whose configuration says something else of a circuit
// than the policy that the store keeps.
type differingWorker struct {
	Worker      string    `json:"worker"`
	Fingerprint string    `json:"fingerprint"`
	Loaded      time.Time `json:"loaded,omitzero"`
	Differences []string  `json:"differences"`
}

// differing lists the workers whose policy for a circuit is not the one kept.
func differing(workers []fusebox.Worker, circuit string, kept fusebox.Policy) []differingWorker {
	var differ []differingWorker
	for i := range workers {
		p, uses := workers[i].PolicyOf(circuit)
		if uses && !p.Equal(kept) {
			differ = append(differ, differingWorker{workers[i].Name, p.Fingerprint(), p.Loaded, differences(p, kept)})
		}
	}
	return differ
}

// differences tells in what a policy is not like another, in the words of the
// configuration file.
func differences(p, other fusebox.Policy) []string {
	own, others := settings(p), settings(other)
	all := maps.Clone(others)
	maps.Copy(all, own)
	var differ []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if own[key] != others[key] {
			differ = append(differ, fmt.Sprintf("%s is %s, not %s", key, orUnset(own[key]), orUnset(others[key])))
		}
	}
	return differ
}

func orUnset(value string) string {
	if value == "" {
		return "unset"
	}
	return value
}

// settings are a policy's, flat: cooldown.after beside trip.
func settings(p fusebox.Policy) map[string]string {
	p.Loaded = time.Time{}
	flat := map[string]string{}
	var read map[string]any
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		return flat // no valid policy
	}
	for key, value := range read {
		inner, nested := value.(map[string]any)
		if !nested {
			flat[key] = settingWords(value)
			continue
		}
		for name, value := range inner {
			flat[key+"."+name] = settingWords(value)
		}
	}
	return flat
}

func settingWords(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	return "[" + strings.Join(words, "; ") + "]"
}

// printDiffering names the workers with other policies, once for all circuits
// of which the same is to be said.
func (a *app) printDiffering(circuits []circuitDiagnosis) {
	type finding struct {
		text  string
		names []string
	}
	var findings []finding
	for _, c := range circuits {
		if len(c.Differing) == 0 {
			continue
		}
		var text strings.Builder
		has := "have"
		if len(c.Differing) == 1 {
			has = "has"
		}
		fmt.Fprintf(&text, "%d of %s %s another policy than the store keeps, which is %s:\n",
			len(c.Differing), countOf(c.Workers, "worker"), has, fingerprintWords(c.Fingerprint, c.Policy.Loaded))
		for _, w := range c.Differing {
			fmt.Fprintf(&text, "  %s, %s: %s\n", printable(w.Worker), fingerprintWords(w.Fingerprint, w.Loaded), printable(strings.Join(w.Differences, ", ")))
		}
		i := slices.IndexFunc(findings, func(f finding) bool { return f.text == text.String() })
		if i < 0 {
			i = len(findings)
			findings = append(findings, finding{text: text.String()})
		}
		findings[i].names = append(findings[i].names, printable(c.Circuit))
	}
	for _, f := range findings {
		a.printf("\n%s: %s", strings.Join(f.names, ", "), f.text)
	}
	if len(findings) > 0 {
		a.printf("All decide by the policy whose configuration was read last. Give all of them the same file: up reads it anew by itself.\n")
	}
}

func fingerprintWords(fingerprint string, loaded time.Time) string {
	if loaded.IsZero() {
		return fingerprint + " (built in)"
	}
	return fingerprint + " (read at " + clock(loaded) + ")"
}
