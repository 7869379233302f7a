package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// fleet is who uses a store: the workers that announced themselves within the
// last minute, and those that show in the evidence alone, as one-shot commands
// and other programs do. What bears a name alone has no ID.
type fleet struct {
	workers   []fusebox.Worker
	reporters map[string]map[string]bool // by circuit: names in its evidence
}

func newFleet(announced []fusebox.Worker) *fleet {
	return &fleet{workers: slices.Clone(announced), reporters: map[string]map[string]bool{}}
}

// reported adds who reported to a circuit lately, and when.
func (f *fleet) reported(circuit string, names map[string]time.Time) {
	f.reporters[circuit] = map[string]bool{}
	for name, at := range names {
		i := slices.IndexFunc(f.workers, func(w fusebox.Worker) bool { return w.Name == name })
		if i < 0 && isProcess(name) {
			continue // it has ended: it would be there
		}
		f.reporters[circuit][name] = true
		if i < 0 {
			f.workers = append(f.workers, fusebox.Worker{Name: name, Seen: at})
		} else if w := &f.workers[i]; w.ID == "" && at.After(w.Seen) {
			w.Seen = at
		}
	}
	slices.SortStableFunc(f.workers, fusebox.Worker.Compare)
}

// isProcess reports whether a worker is named as processName names one that
// lives long, and announces itself.
func isProcess(name string) bool {
	_, err := strconv.ParseUint(name[strings.LastIndexByte(name, ':')+1:], 10, 32)
	return err == nil && strings.Contains(name, ":")
}

// count is how many workers use a circuit.
func (f *fleet) count(circuit string) int {
	n := 0
	for i := range f.workers {
		w := &f.workers[i]
		if _, uses := w.PolicyOf(circuit); uses || f.reporters[circuit][w.Name] {
			n++
		}
	}
	return n
}

// printStore says where circuits are kept, and whether that answers.
func (a *app) printStore(s *fusebox.StoreStatus) {
	if s.Answers {
		a.printf("store %s answers in %s\n", printable(s.Address), quickly(s.Latency))
		return
	}
	a.printf("store %s does not answer: %s\n", printable(s.Address), printable(s.Error))
	a.printf("Meanwhile each worker goes on by itself, from what it knew last: what a policy counts, it counts in each of them.\n" +
		"fusebox status --from http://HOST:4041 asks a worker, by its admin listener, what it decides by and since when.\n")
}

// quickly is a short time with the precision that it deserves.
func quickly(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return roughly(d)
}

// shownWorkers is how many workers are printed one by one.
const shownWorkers = 50

// printWorkers lists who uses the store; now is the store's time.
func (a *app) printWorkers(workers []fusebox.Worker, now time.Time) {
	if len(workers) == 0 {
		return
	}
	t := &table{}
	t.row("WORKER", "VERSION", "BEGAN", "SEEN", "CIRCUITS", "STATE")
	for i := range workers[:min(len(workers), shownWorkers)] {
		w := &workers[i]
		circuits := ""
		if w.ID != "" {
			n := 0
			for _, p := range w.Policies {
				n += p.Count
			}
			circuits = fmt.Sprint(n)
		}
		t.row(w.Name, w.Version, ago(w.Since, now), ago(w.Seen, now), circuits, presenceWords(w, now))
	}
	a.printTable(t)
	if more := len(workers) - shownWorkers; more > 0 {
		a.printf("and %d more: --json lists all\n", more)
	}
}

// presenceWords say how a worker is with its store.
func presenceWords(w *fusebox.Worker, now time.Time) cell {
	switch {
	case w.ID == "":
		return cell{"reports", plain}
	case !w.LocalSince.IsZero() && w.LocalUntil.IsZero():
		return cell{"local since " + clock(w.LocalSince), yellow}
	case w.SilentAt(now):
		return cell{"silent: it has ended, or lost the store", yellow}
	case w.LocalSince.IsZero():
		return cell{"there", green}
	}
	return cell{fmt.Sprintf("there; was local for %s until %s", roughly(w.LocalUntil.Sub(w.LocalSince)), clock(w.LocalUntil)), green}
}
