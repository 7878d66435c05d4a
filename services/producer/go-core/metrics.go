package core

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics is what /metrics shows; names and labels are equal in all six services.
type Metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	events    *prometheus.CounterVec
	entities  prometheus.Counter
}

// Fate is what became of an event.
type Fate string

const (
	// Stored is an event that was committed.
	Stored Fate = "stored"
	// Refused is an event that broke a rule.
	Refused Fate = "refused"
	// Failed is an event that met a database that was away, or something that broke.
	Failed Fate = "failed"
)

// NewMetrics makes the counters of one service.
func NewMetrics(store *Store) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		requests:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "producer_requests_total", Help: "Completed requests, by operation and status."}, []string{"operation", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "producer_request_duration_seconds", Help: "Time from the request to its response.", Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"operation"}),
		events:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "producer_events_total", Help: "Events, by what became of them."}, []string{"outcome"}),
		entities:  prometheus.NewCounter(prometheus.CounterOpts{Name: "producer_entities_total", Help: "Entity updates committed."}),
	}
	connections := func(state string, count func() int) prometheus.Collector {
		options := prometheus.GaugeOpts{Name: "producer_database_connections", Help: "Open connections to PostgreSQL.", ConstLabels: prometheus.Labels{"state": state}}
		return prometheus.NewGaugeFunc(options, func() float64 { return float64(count()) })
	}
	m.registry.MustRegister(m.requests, m.durations, m.events, m.entities,
		connections("used", func() int { used, _ := store.Connections(); return used }),
		connections("idle", func() int { _, idle := store.Connections(); return idle }))
	return m
}

// Finished counts one finished request; code is the HTTP status or the gRPC code's name.
func (m *Metrics) Finished(operation, code string, took time.Duration) {
	m.requests.WithLabelValues(operation, code).Inc()
	m.durations.WithLabelValues(operation).Observe(took.Seconds())
}

// Event counts one event and, when it was stored, its entities.
func (m *Metrics) Event(fate Fate, entities int) {
	m.events.WithLabelValues(string(fate)).Inc()
	if fate == Stored {
		m.entities.Add(float64(entities))
	}
}

// Handler serves GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
