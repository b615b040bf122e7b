package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/reports"
)

// metrics are the figures of one run, in a registry of its own.
type metrics struct {
	registry *prometheus.Registry
	attempts *prometheus.CounterVec
	troubles *prometheus.CounterVec
	stages   *prometheus.HistogramVec
	attempt  prometheus.Histogram
	memory   prometheus.Histogram
	cpu      prometheus.Counter
}

func newMetrics(w *Watch) *metrics {
	label := prometheus.Labels{"run": w.o.RunID}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "evalrun_attempts_total", Help: "Attempts that have ended, by outcome; resumed are those of an earlier call of the run.", ConstLabels: label,
		}, []string{"outcome", "reused"}),
		troubles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "evalrun_trouble_total", Help: "Failures of the engine or the host, by cause; each was tried again.", ConstLabels: label,
		}, []string{"cause"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "evalrun_stage_seconds", Help: "Time of a stage: image, start, wait (for a worker and room), and the phases of an attempt.", ConstLabels: label,
			Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 13),
		}, []string{"stage"}),
		attempt: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "evalrun_attempt_seconds", Help: "Time of an attempt, without waiting.", ConstLabels: label, Buckets: prometheus.ExponentialBuckets(0.25, 2, 14),
		}),
		memory: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "evalrun_attempt_memory_bytes", Help: "Peak memory of an attempt's sandbox.", ConstLabels: label, Buckets: prometheus.ExponentialBuckets(16<<20, 2, 11),
		}),
		cpu: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "evalrun_cpu_seconds_total", Help: "Processor time of all sandboxes.", ConstLabels: label,
		}),
	}
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: label}, func() float64 { return value(w.Status()) })
	}
	known := func(s *float64) float64 {
		if s == nil {
			return -1
		}
		return *s
	}
	m.registry.MustRegister(m.attempts, m.troubles, m.stages, m.attempt, m.memory, m.cpu,
		gauge("evalrun_jobs", "Jobs of the run.", func(s Status) float64 { return float64(s.Jobs) }),
		gauge("evalrun_jobs_done", "Jobs that have ended.", func(s Status) float64 { return float64(s.Done) }),
		gauge("evalrun_workers_busy", "Workers that run something.", func(s Status) float64 { return float64(len(s.Workers)) }),
		gauge("evalrun_left_low_seconds", "Low end of the predicted rest; -1 while unknown.", func(s Status) float64 { return known(s.LeftLow) }),
		gauge("evalrun_left_high_seconds", "High end of the predicted rest; -1 while unknown.", func(s Status) float64 { return known(s.LeftHigh) }),
	)
	return m
}

func (m *metrics) stage(name string, took time.Duration) {
	m.stages.WithLabelValues(name).Observe(took.Seconds())
}

func (m *metrics) trouble(c cause.Cause) { m.troubles.WithLabelValues(c.String()).Inc() }

func (m *metrics) finished(a *reports.Attempt) {
	reused := "no"
	switch {
	case a.Resumed:
		reused = "resumed"
	case a.Reused:
		reused = "yes"
	}
	m.attempts.WithLabelValues(string(a.Outcome), reused).Inc()
	if !ran(a) {
		return
	}
	m.attempt.Observe(a.Seconds)
	m.memory.Observe(float64(a.Usage.PeakMemoryBytes))
	m.cpu.Add(a.Usage.CPUSeconds)
	for _, p := range a.Phases {
		m.stages.WithLabelValues(p.Name).Observe(p.Seconds)
	}
}
