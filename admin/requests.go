package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Request is one request of a client, as a front has answered it.
type Request struct {
	Outcome    string        // "ok", "degraded" (not by the first choice), "failed" or "canceled"
	Elapsed    time.Duration // until the end of the answer
	FirstToken time.Duration // until the first content of a stream; 0 = none came, or not streamed
}

// CountRequest counts a request in the metrics. It is safe for concurrent use.
func (h *Handler) CountRequest(r Request) { h.metrics.requests.count(r) }

// requests counts what clients got, whatever circuits did meanwhile.
type requests struct {
	durations   *prometheus.HistogramVec
	known       map[string]prometheus.Observer // of durations, by outcome
	firstTokens prometheus.Histogram
}

// outcomes are those that have a label of their own.
var outcomes = []string{"ok", "degraded", "failed", "canceled"}

func newRequests(registry *prometheus.Registry) *requests {
	r := &requests{
		known: map[string]prometheus.Observer{},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "fusebox", Name: "request_duration_seconds",
			Help:    "Requests of clients until the end of the answer, by outcome: degraded ones were not answered by the first choice.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"outcome"}),
		firstTokens: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "fusebox", Name: "time_to_first_token_seconds",
			Help:    "Streamed requests until their first content.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	for _, o := range outcomes {
		r.known[o] = r.durations.WithLabelValues(o) // also so that a first one is an increase
	}
	registry.MustRegister(r.durations, r.firstTokens)
	return r
}

func (r *requests) count(q Request) {
	duration, known := r.known[q.Outcome]
	if !known {
		duration = r.durations.WithLabelValues(other)
	}
	duration.Observe(q.Elapsed.Seconds())
	if q.FirstToken > 0 {
		r.firstTokens.Observe(q.FirstToken.Seconds())
	}
}
