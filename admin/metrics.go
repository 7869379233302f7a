package admin

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fusebox-go/fusebox"
)

// metrics counts what the box tells and reads its circuits at each scrape.
type metrics struct {
	h        *Handler
	registry *prometheus.Registry
	names    *labels
	stops    []func()

	calls       *prometheus.CounterVec
	wanted      *prometheus.CounterVec
	denials     *prometheus.CounterVec
	observed    *prometheus.CounterVec
	transitions *prometheus.CounterVec
	probes      *prometheus.CounterVec
	absorbed    *prometheus.CounterVec
	throttles   *prometheus.CounterVec
	thrash      prometheus.Counter
	overdue     *prometheus.CounterVec
	runs        *prometheus.CounterVec
	notices     *prometheus.CounterVec
	requests    *requests
}

func newMetrics(h *Handler) *metrics {
	m := &metrics{h: h, registry: prometheus.NewRegistry(), names: newLabels(h.cfg.MaxCircuits)}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fusebox", Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.calls = counters("calls_total", "Calls that were made, by outcome; class is a failure's.", "circuit", "outcome", "class")
	m.wanted = counters("wanted_calls_total", "Calls that callers wanted, made or denied. Alert on the share that did not work: it does not go quiet when a circuit opens.", "circuit")
	m.denials = counters("denials_total", "Calls that were refused, by reason.", "circuit", "reason")
	m.observed = counters("observed_denials_total", "Calls that would have been refused, were the circuit not only observed.", "circuit", "reason")
	m.transitions = counters("transitions_total", "Changes of a circuit's phase. Alert on how often one opens, not on each time.", "circuit", "from", "to")
	m.probes = counters("probes_total", "Results of probes, by outcome.", "circuit", "outcome")
	m.absorbed = counters("absorbed_failures_total", "Failed attempts inside calls that then succeeded: slow degradation that no circuit shows.", "circuit")
	m.throttles = counters("throttles_total", "Answers that asked not to be called before some time.", "circuit")
	m.overdue = counters("overdue_total", "Calls that were counted as failed before their end.", "circuit")
	m.runs = counters("runs_total", "Runs that ended, by outcome: degraded ones had something denied or given up.", "outcome")
	for _, o := range []fusebox.RunOutcome{fusebox.RunComplete, fusebox.RunDegraded, fusebox.RunFailed} {
		m.runs.WithLabelValues(string(o)) // so that a first one is an increase
	}
	m.notices = counters("notices_total", "What people should hear of and no transition tells: circuits that degrade, runs that struggle or are stuck.", "kind")
	for _, k := range []fusebox.NoticeKind{fusebox.NoticeDegrading, fusebox.NoticeStruggling, fusebox.NoticeStuck} {
		m.notices.WithLabelValues(string(k))
	}
	m.requests = newRequests(m.registry)
	m.thrash = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "fusebox", Name: "thrash_total",
		Help: "Calls refused because a run repeated one exact failing call."})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "fusebox", Name: "build_info",
		Help: "Which program this is; always 1.", ConstLabels: prometheus.Labels{"version": h.cfg.Version, "go": runtime.Version()}})
	build.Set(1)
	m.registry.MustRegister(m.thrash, build, &gauges{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.stops = []func(){
		h.cfg.Box.OnEvidence(m.evidence),
		h.cfg.Box.OnTransition(m.transition),
		h.cfg.Box.OnNotice(m.notice),
	}
	return m
}

func (m *metrics) stop() {
	for _, stop := range m.stops {
		stop()
	}
}

// handler serves a scrape: what the box counted on its fast paths is flushed
// first.
func (m *metrics) handler() http.Handler {
	scrape := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, cancel := m.h.flush(r.Context())
		cancel()
		scrape.ServeHTTP(w, r)
	})
}

// evidence counts one record of the box.
func (m *metrics) evidence(e fusebox.Event) {
	if isRun(e.Circuit) {
		return // what it tells is recorded with the circuits that were called, too
	}
	n := float64(max(e.N, 1))
	switch e.Kind {
	case fusebox.KindDenied:
		m.denial(m.names.of(e.Circuit), e.Reason, e.Observed, n)
	case fusebox.KindEvidence:
		m.result(m.names.of(e.Circuit), &e, n)
	}
}

func (m *metrics) denial(circuit string, reason fusebox.Reason, observed bool, n float64) {
	if observed { // the call goes all the same, and is counted then
		m.observed.WithLabelValues(circuit, reasonLabel(reason)).Add(n)
		return
	}
	m.denials.WithLabelValues(circuit, reasonLabel(reason)).Add(n)
	m.wanted.WithLabelValues(circuit).Add(n)
	if reason == fusebox.ReasonThrash {
		m.thrash.Add(n)
	}
}

func (m *metrics) result(circuit string, e *fusebox.Event, n float64) {
	if e.Lease != "" {
		m.probes.WithLabelValues(circuit, e.Outcome.String()).Inc()
	}
	if e.Overdue { // its end is told of too, and counted then
		m.overdue.WithLabelValues(circuit).Inc()
		return
	}
	m.calls.WithLabelValues(circuit, e.Outcome.String(), classLabel(e.Class)).Add(n)
	m.wanted.WithLabelValues(circuit).Add(n)
	switch {
	case e.Outcome == fusebox.Throttled:
		m.throttles.WithLabelValues(circuit).Inc()
	case e.Outcome == fusebox.Success && e.Attempts > 1:
		m.absorbed.WithLabelValues(circuit).Add(float64(e.Attempts - 1))
	}
}

func (m *metrics) transition(t fusebox.Transition) {
	if !isRun(t.Circuit) && t.From != t.To {
		m.transitions.WithLabelValues(m.names.of(t.Circuit), t.From.String(), t.To.String()).Inc()
	}
}

func (m *metrics) notice(n fusebox.Notice) {
	if n.Kind == fusebox.NoticeEnded {
		m.runs.WithLabelValues(string(n.Outcome)).Inc()
		return
	}
	m.notices.WithLabelValues(string(n.Kind)).Inc()
}

// isRun reports whether a circuit is a run's record: runs have ids of their
// callers' choosing, and those become no labels.
func isRun(circuit string) bool { return strings.HasPrefix(circuit, "run/") }
