package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// budget is a figure that was promised.
type budget struct {
	what string
	unit string
	most float64 // or least, where atLeast
	have float64

	atLeast bool
}

// budgets prints whether what was measured keeps what was promised. What was
// not measured in this run is left out.
func (f *findings) budgets(out io.Writer) error {
	var all []budget
	add := func(measured bool, b budget) {
		if measured {
			all = append(all, b)
		}
	}
	perCall := func(what, workload string, l library, r rule, most float64) {
		if s := f.speed(workload, r, l.name); s != nil {
			add(true, budget{what: what + ", " + string(r), unit: "ns", most: most, have: s.cpu.median()})
			add(true, budget{what: what + ", " + string(r) + ", allocations", most: 0, have: float64(int(s.allocs.median() + 0.5))})
		}
		if s := find(f.parallel[speedKey{workload, r}], l.name); s != nil {
			add(true, budget{what: what + ", " + string(r) + ", all cores", unit: "ns", most: most, have: s.cpu.median()})
		}
	}
	for _, r := range []rule{streak, count, of} {
		perCall("Allow and Done of a success", "success", fuseboxByHand, r, 12)
	}
	perCall("Do of a success", "success", fuseboxDo, streak, 16)
	perCall("one clock read", "success", fuseboxByHand, rate, 45)
	perCall("with the call's time", "success", fuseboxByHand, slow, 85)
	perCall("refusal", "refused", fuseboxByHand, streak, 10)
	if b, ok := f.bytes[fuseboxByHand.name]; ok {
		add(true, budget{what: "an idle circuit", unit: "bytes", most: 300, have: float64(b[0])})
	}
	if s, ok := f.stored[storeKey{"filestore", fresh, 1}]; ok {
		add(true, budget{what: "filestore, open-fold-close, p50", unit: "ms", most: 2, have: s.median() / 1000})
	}
	together := 0
	for _, o := range f.outcomes {
		if o.sharing != shared {
			continue
		}
		together = max(together, o.together)
		add(o.workers >= 20, budget{
			what: fmt.Sprintf("%d workers that share a circuit, calls at a backend that fails in %v", o.workers, o.failing),
			most: math.Ceil(o.bound(o.delay)), have: float64(o.reached),
		})
	}
	add(len(f.outcomes) > 0, budget{what: "a fleet's probes at once", most: 1, have: float64(together)})
	if n := len(f.reports); n > 0 {
		most := f.reports[n-1]
		add(true, budget{what: "reports of a fleet, counted of made", most: 1, have: float64(most.counted) / float64(most.made), atLeast: true})
	}
	if g := f.fronts; len(g) > 0 {
		direct, bare, ours := g[0], g[1], findFront(g, gatewayName)
		add(true, budget{what: "gateway, requests/s of the bare forwarder's", most: 0.9, have: ours.perSecond.median() / bare.perSecond.median(), atLeast: true})
		add(true, budget{what: "gateway, added at p50", unit: "ms", most: 0.5, have: ours.whole.median() - direct.whole.median()})
	}
	for _, transport := range mcpTransports {
		if took, ok := f.mcp[transport.name]; ok {
			p50 := func(way string) float64 { return took[way].median() }
			add(true, budget{what: "MCP guard, " + transport.name + ", p50 of the byte relay's", most: 1.6, have: p50(mcpGuard) / p50(mcpBytes)})
			add(true, budget{what: "MCP guard, " + transport.name + ", a denial's p50 of a direct call's", most: 0.5, have: p50(mcpDenied) / p50(mcpDirect)})
		}
	}
	fmt.Fprint(out, "## Budgets\n\nWhat was promised, and whether this run kept it; CPU nanoseconds.\n\n")
	t := newTable("figure", "budget", "measured", "kept")
	for _, b := range all {
		sign, ratio := "≤", b.have/b.most
		if b.atLeast {
			sign, ratio = "≥", b.most/b.have
		}
		kept := "yes"
		if b.most == 0 && b.have > 0 {
			kept = "no"
		} else if b.most > 0 && ratio > 1 {
			kept = fmt.Sprintf("no: by %.0f %%", 100*(ratio-1))
		}
		t.row(b.what, strings.TrimSpace(fmt.Sprintf("%s %v %s", sign, b.most, b.unit)), strings.TrimSpace(short(b.have)+" "+b.unit), kept)
	}
	t.print(out)
	return nil
}

func find(subjects []*subject, name string) *subject {
	for _, s := range subjects {
		if s.name == name {
			return s
		}
	}
	return nil
}

func findFront(fronts []*front, name string) *front {
	for _, x := range fronts {
		if x.name == name {
			return x
		}
	}
	return nil
}
