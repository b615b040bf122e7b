package observe

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/evalrun/evalrun/internal/runner"
)

// traces makes spans of what has ended: one for the run, one for each attempt with
// its phases, one for each image. nil makes none.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	run      context.Context
	span     trace.Span
}

// flushTime is what sending the last spans may take at the end of a run.
const flushTime = 10 * time.Second

// Trace sends spans where OpenTelemetry's environment variables say, and nothing
// where they say nothing. stop ends the run's span and sends what is left.
func (w *Watch) Trace(ctx context.Context, version string) (stop func() error, err error) {
	exporter, err := exporterFromEnv(ctx)
	if err != nil || exporter == nil {
		return func() error { return nil }, err
	}
	// What the environment says of the service goes before what is said here.
	res, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "evalrun"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &traces{provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res))}
	t.tracer = t.provider.Tracer("github.com/evalrun/evalrun")
	// A pipeline that traces itself hands its own span on.
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": os.Getenv("TRACEPARENT"), "tracestate": os.Getenv("TRACESTATE")})
	t.run, t.span = t.tracer.Start(parent, "run", trace.WithAttributes(attribute.String("evalrun.run", w.o.RunID), attribute.Int("evalrun.jobs", w.o.Jobs)))
	w.traces = t
	return func() error {
		t.span.End()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		return t.provider.Shutdown(ctx)
	}, nil
}

// exporterFromEnv is nil when tracing is off. The exporters read addresses, headers,
// certificates and time limits from the environment by themselves.
func exporterFromEnv(ctx context.Context) (sdk.SpanExporter, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v := strings.TrimSpace(os.Getenv(name)); v != "" {
				return v
			}
		}
		return ""
	}
	kind := first("OTEL_TRACES_EXPORTER")
	if kind == "" && first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		kind = "otlp"
	}
	if strings.EqualFold(first("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch kind {
	case "", "none":
		return nil, nil
	case "otlp":
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: want otlp or none", kind)
	}
	switch protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: want http/protobuf or grpc", protocol)
	}
}

func (t *traces) image(ev runner.Event) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(t.run, "image", trace.WithTimestamp(ev.At.Add(-ev.Took)), trace.WithAttributes(attribute.String("evalrun.instance", ev.Job.Instance.ID)))
	if ev.Err != nil {
		span.SetStatus(codes.Error, ev.Err.Error())
	}
	span.End(trace.WithTimestamp(ev.At))
}

func (t *traces) attempt(ev runner.Event) {
	a := ev.Attempt
	if t == nil || a.Reused || a.Resumed {
		return
	}
	ctx, span := t.tracer.Start(t.run, "attempt", trace.WithTimestamp(a.Start), trace.WithAttributes(
		attribute.String("evalrun.instance", a.InstanceID), attribute.String("evalrun.model", a.Model), attribute.String("evalrun.repo", a.Repo),
		attribute.String("evalrun.outcome", string(a.Outcome)), attribute.Float64("evalrun.waited_seconds", a.WaitedSeconds),
		attribute.Int64("evalrun.peak_memory_bytes", a.Usage.PeakMemoryBytes), attribute.Float64("evalrun.cpu_seconds", a.Usage.CPUSeconds),
	))
	for _, p := range a.Phases {
		from := a.Start.Add(time.Duration(p.At * float64(time.Second)))
		_, phase := t.tracer.Start(ctx, p.Name, trace.WithTimestamp(from), trace.WithAttributes(attribute.Int("evalrun.exit_code", p.ExitCode)))
		phase.End(trace.WithTimestamp(from.Add(time.Duration(p.Seconds * float64(time.Second)))))
	}
	if !a.Outcome.Evaluated() {
		span.SetStatus(codes.Error, a.Reason)
	}
	span.End(trace.WithTimestamp(ev.At))
}
