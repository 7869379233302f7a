package admin

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// report is what the store and the box know, after a flush, which makes the
// store's view the newest; where the box is stricter, or the store is out of reach, the
// box's own view is what decides here and so is what is shown.
func (h *Handler) report(ctx context.Context) fusebox.Report {
	report := fusebox.Report{Circuits: []fusebox.Status{}, Runs: []fusebox.RunStatus{}, Workers: []fusebox.Worker{}}
	if h.cfg.Store != nil {
		stored, err := fusebox.ReadReport(ctx, h.cfg.Store)
		if err != nil {
			level := slog.LevelWarn
			if h.local.Load() { // the box has told of it, and scrapes come every few seconds
				level = slog.LevelDebug
			}
			h.cfg.Logger.Log(ctx, level, "reading the store", "error", err)
		}
		report = stored
	}
	local := false
	for _, own := range h.cfg.Box.Circuits() {
		local = local || own.Local
		if isRun(own.Circuit) {
			continue // told as a run
		}
		i, found := slices.BinarySearchFunc(report.Circuits, own.Circuit,
			func(s fusebox.Status, name string) int { return strings.Compare(s.Circuit, name) })
		switch {
		case !found:
			report.Circuits = slices.Insert(report.Circuits, i, own)
		case own.Local, own.Phase != fusebox.Closed && own.Version >= report.Circuits[i].Version:
			report.Circuits[i] = own
		}
	}
	h.local.Store(local)
	h.addSelf(&report)
	for _, own := range h.cfg.Box.Runs() {
		i := slices.IndexFunc(report.Runs, func(r fusebox.RunStatus) bool { return r.Run == own.Run })
		if i < 0 {
			report.Runs = append(report.Runs, own)
		} else {
			report.Runs[i] = own
		}
	}
	return report
}

// addSelf adds this worker where the store does not list it, and what it alone
// may know: since when it is without the store.
func (h *Handler) addSelf(report *fusebox.Report) {
	own := h.cfg.Box.Worker()
	i := slices.IndexFunc(report.Workers, func(w fusebox.Worker) bool { return w.ID == own.ID })
	if i < 0 {
		report.Workers = append(report.Workers, own)
		slices.SortFunc(report.Workers, fusebox.Worker.Compare)
		return
	}
	report.Workers[i].LocalSince, report.Workers[i].LocalUntil = own.LocalSince, own.LocalUntil
}
