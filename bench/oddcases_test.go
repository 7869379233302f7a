package main

import (
	"context"
	"fmt"
	"runtime"
	"testing/synctest"
	"time"
)

// oddCaseRuns returns what went wrong, "" if nothing did.
var oddCaseRuns = map[string]func(*trial) string{
	"probe panics":              probePanics,
	"probe calls Goexit":        probeExits,
	"probe hangs":               probeHangs,
	"50 callers at half-open":   fiftyCallers,
	"late success while open":   lateSuccessOpen,
	"late success at half-open": lateSuccessHalfOpen,
	"late failure at half-open": lateFailureHalfOpen,
	"cancelled probe":           cancelledProbe,
	"ten cancels while closed":  tenCancels,
	"a failure every 20 s":      slowStreak,
}

// byLot is the verdict on circuits that refuse only some calls, where a case
// asks for a phase that they do not have.
const byLot = "no such phase"

func probePanics(t *trial) string {
	probe, problem := t.probe(t.Context())
	if problem != "" {
		return problem
	}
	if !probe.end(func() error { panic("broken") }) {
		return "the caller hangs"
	}
	if probe.panicked == nil {
		return "the panic is swallowed"
	}
	if !t.refuses() {
		return "is no failure"
	}
	return t.heals()
}

func probeExits(t *trial) string {
	probe, problem := t.probe(t.Context())
	if problem != "" {
		return problem
	}
	if !probe.end(func() error { runtime.Goexit(); return nil }) {
		return "the caller hangs"
	}
	return t.heals()
}

func probeHangs(t *trial) string {
	probe, problem := t.probe(t.Context())
	if problem != "" {
		return problem
	}
	if problem := t.heals(); problem != "" {
		return problem
	}
	probe.end(failing)
	if !t.closed() {
		return "its end opens the circuit"
	}
	return ""
}

func fiftyCallers(t *trial) string {
	t.open()
	time.Sleep(cooldown + time.Second)
	callers := make([]*attempt, 50)
	for i := range callers {
		callers[i] = t.start(t.Context())
	}
	synctest.Wait()
	in := 0
	for _, c := range callers {
		if c.inside.Load() {
			in++
		}
	}
	if in != 1 {
		return fmt.Sprintf("%d get in", in)
	}
	return ""
}

func lateSuccessOpen(t *trial) string {
	late := t.begin(t.Context())
	t.open()
	if !t.refuses() {
		return byLot
	}
	late.end(working)
	if !t.refuses() {
		return "closes the circuit"
	}
	time.Sleep(cooldown - time.Second)
	if !t.refuses() {
		return "shortens the cooldown"
	}
	return t.heals()
}

func lateSuccessHalfOpen(t *trial) string {
	late := t.begin(t.Context())
	probe, problem := t.probe(t.Context())
	if problem != "" {
		return problem
	}
	late.end(working)
	probe.end(failing)
	if !t.refuses() {
		return "probe's failure opens nothing"
	}
	return ""
}

func lateFailureHalfOpen(t *trial) string {
	late := t.begin(t.Context())
	probe, problem := t.probe(t.Context())
	if problem != "" {
		return problem
	}
	late.end(failing)
	probe.end(working)
	if !t.closed() {
		return "opens the circuit"
	}
	return ""
}

func cancelledProbe(t *trial) string {
	ctx, cancel := context.WithCancel(t.Context())
	probe, problem := t.probe(ctx)
	cancel()
	if problem != "" {
		return problem
	}
	if !probe.end(ctx.Err) {
		return "the caller hangs"
	}
	next := t.begin(t.Context())
	if !next.inside.Load() {
		if problem := t.heals(); problem != "" {
			return problem
		}
		return "is a failure"
	}
	next.end(failing)
	if !t.refuses() {
		return "is a success"
	}
	return ""
}

func tenCancels(t *trial) string {
	cancelled := func(n int) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := make([]*attempt, n)
		for i := range calls {
			calls[i] = t.begin(ctx)
		}
		cancel()
		for _, c := range calls {
			c.end(ctx.Err)
		}
	}
	cancelled(10)
	if !t.closed() {
		return "they open it"
	}
	t.begin(t.Context()).end(failing)
	t.begin(t.Context()).end(failing)
	cancelled(1)
	t.begin(t.Context()).end(failing)
	if !t.refuses() {
		return "they hide failures"
	}
	return ""
}

func slowStreak(t *trial) string {
	for range 180 {
		if call := t.begin(t.Context()); !call.end(failing) {
			return ""
		}
		time.Sleep(20 * time.Second)
	}
	return "never opens"
}
