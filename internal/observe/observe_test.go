package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/internal/cause"
	"github.com/evalrun/evalrun/internal/runner"
	"github.com/evalrun/evalrun/reports"
)

var job = runner.Job{Instance: &datasets.Instance{ID: "a__b-1"}, Prediction: &datasets.Prediction{Model: "model"}}

// events are those of one attempt, with trouble before.
func events() []runner.Event {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	return []runner.Event{
		{Kind: runner.ImageReady, Job: job, At: start, Took: 2 * time.Second},
		{Kind: runner.Trouble, Job: job, At: start, Err: cause.As(cause.Disk, errors.New("no space left"))},
		{Kind: runner.Started, Job: job, At: start, Took: time.Second},
		{Kind: runner.Entered, Job: job, At: start, Took: time.Second},
		{Kind: runner.Finished, Job: job, At: start.Add(12 * time.Second), Took: 12 * time.Second, Attempt: &reports.Attempt{
			InstanceID: "a__b-1", Model: "model", Outcome: grading.Resolved, Start: start, Seconds: 11, WaitedSeconds: 1,
			Phases: []reports.PhaseRecord{{Name: "apply", At: 1, Seconds: 0.5}, {Name: "test", At: 2, Seconds: 9, ExitCode: 1}},
			Usage:  reports.UsageRecord{PeakMemoryBytes: 1 << 28, CPUSeconds: 8},
		}},
		{Kind: runner.Finished, Job: job, At: start, Attempt: &reports.Attempt{InstanceID: "a__b-2", Outcome: grading.Unresolved, Reused: true}},
		{Kind: runner.Stays, Job: job, At: start, Err: errors.New("no such image")},
		{Kind: runner.Finished, Job: job, At: start.Add(24 * time.Hour), Attempt: &reports.Attempt{ // of an earlier call
			InstanceID: "a__b-3", Outcome: grading.Resolved, Resumed: true, Start: start, Seconds: 100,
			Phases: []reports.PhaseRecord{{Name: "apply", Seconds: 1}, {Name: "test", Seconds: 90}}, Usage: reports.UsageRecord{PeakMemoryBytes: 1 << 28, CPUSeconds: 80},
		}},
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	w := New(Options{RunID: "r", Jobs: 2, Log: slog.New(slog.NewJSONHandler(&out, nil))})
	w.Begin("engine", "fake")
	for _, ev := range events() {
		w.Event(ev)
	}
	w.End(nil)
	var messages []string
	for dec := json.NewDecoder(&out); ; {
		var line struct {
			Level, Msg, Instance, Outcome, Cause string
			Resumed                              bool
			Phases                               map[string]float64
		}
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, strings.Join(strings.Fields(line.Level+" "+line.Msg+" "+line.Instance+" "+line.Outcome+" "+line.Cause), " "))
		if line.Outcome == "resolved" && !line.Resumed && line.Phases["test"] != 9 {
			t.Errorf("the phases are %v", line.Phases)
		}
	}
	want := []string{
		"INFO run begins", "WARN trouble a__b-1 no room is left on the disk", "INFO finished a__b-1 resolved", "INFO finished a__b-1 unresolved",
		"WARN no image, and the result of an earlier call stays a__b-1 the engine fails", "INFO finished a__b-1 resolved", "INFO run ended",
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestServer(t *testing.T) {
	w := New(Options{RunID: "r<1>", Jobs: 5, Left: func() (low, high time.Duration, ok bool) { return time.Minute, 2 * time.Minute, true }})
	for _, ev := range events() {
		w.Event(ev)
	}
	w.Worker(3, "a__b-3 test <script>alert(1)</script>")
	w.Worker(1, "gone")
	w.Worker(1, "")
	url, stop, err := w.Serve(context.Background(), "0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("a port alone is served at %s", url)
	}
	status, page := get(t, url)
	for _, want := range []string{"3 of 5 done, 1 of them by an earlier call, 1 of them taken over", "1m0s to 2m0s left", "&lt;script&gt;", "no room is left on the disk", "Run r&lt;1&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("status %d, the page lacks %q:\n%s", status, want, page)
		}
	}
	if strings.Contains(page, "<script>") || strings.Contains(page, "gone") {
		t.Errorf("the page has what it must not have:\n%s", page)
	}
	var s Status
	if _, text := get(t, url+"status.json"); json.Unmarshal([]byte(text), &s) != nil {
		t.Errorf("not JSON: %s", text)
	}
	if s.Done != 3 || s.Reused != 1 || s.Resumed != 1 || s.Jobs != 5 || len(s.Workers) != 1 || s.Workers[0].Worker != 3 || s.Outcomes["resolved"] != 2 || *s.LeftHigh != 120 {
		t.Errorf("%+v", s)
	}
	_, metrics := get(t, url+"metrics")
	for _, want := range []string{
		`evalrun_attempts_total{outcome="resolved",reused="no",run="r<1>"} 1`, `evalrun_attempts_total{outcome="unresolved",reused="yes",run="r<1>"} 1`,
		`evalrun_attempts_total{outcome="resolved",reused="resumed",run="r<1>"} 1`, `evalrun_attempt_seconds_count{run="r<1>"} 1`,
		`evalrun_trouble_total{cause="no room is left on the disk",run="r<1>"} 1`, `evalrun_stage_seconds_sum{run="r<1>",stage="test"} 9`,
		`evalrun_jobs{run="r<1>"} 5`, `evalrun_workers_busy{run="r<1>"} 1`, `evalrun_left_high_seconds{run="r<1>"} 120`, `evalrun_cpu_seconds_total{run="r<1>"} 8`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
	if status, _ := get(t, url+"etc/passwd"); status != http.StatusNotFound {
		t.Errorf("another path has status %d", status)
	}
	stop()
	if _, err := http.Get(url); err == nil {
		t.Error("it is still served after stop")
	}
}

// What Prometheus' own linter says of the names and types.
func TestMetricNames(t *testing.T) {
	w := New(Options{RunID: "r"})
	for _, ev := range events() {
		w.Event(ev)
	}
	problems, err := testutil.GatherAndLint(w.metrics.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestAddress(t *testing.T) {
	for addr, want := range map[string]string{"9464": "127.0.0.1:9464", ":9464": "127.0.0.1:9464", "0.0.0.0:80": "0.0.0.0:80", "[::1]:0": "[::1]:0"} {
		if got, err := Address(addr); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", addr, got, err, want)
		}
	}
	for _, addr := range []string{"", "localhost", "a:b:c"} {
		if got, err := Address(addr); err == nil {
			t.Errorf("%q is taken for %q", addr, got)
		}
	}
}

// received are the spans a collector got.
type received struct {
	mu    sync.Mutex
	spans []*tracepb.Span
	names []string // of the services
}

func (r *received) add(req *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		for _, attr := range rs.Resource.Attributes {
			if attr.Key == "service.name" {
				r.names = append(r.names, attr.Value.GetStringValue())
			}
		}
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
}

type grpcCollector struct {
	collector.UnimplementedTraceServiceServer
	received
}

func (c *grpcCollector) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.add(req)
	return &collector.ExportTraceServiceResponse{}, nil
}

// noEnvironment clears what would be taken from the environment of the tests.
func noEnvironment(t *testing.T) {
	for _, name := range []string{
		"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "TRACEPARENT", "TRACESTATE",
	} {
		t.Setenv(name, "")
	}
}

// Spans arrive at a collector over HTTP and over gRPC, with the times of what they
// are of, below the span that TRACEPARENT names.
func TestTraces(t *testing.T) {
	var overHTTP received
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		overHTTP.add(&req)
	}))
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	overGRPC := &grpcCollector{}
	rpc := grpc.NewServer()
	collector.RegisterTraceServiceServer(rpc, overGRPC)
	go rpc.Serve(listener)
	defer rpc.Stop()
	for _, tt := range []struct {
		protocol, endpoint string
		got                *received
	}{{"", server.URL, &overHTTP}, {"grpc", "http://" + listener.Addr().String(), &overGRPC.received}} {
		noEnvironment(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", tt.endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", tt.protocol)
		t.Setenv("OTEL_SERVICE_NAME", "nightly")
		t.Setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		w := New(Options{RunID: "r", Jobs: 2})
		stop, err := w.Trace(context.Background(), "v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events() {
			w.Event(ev)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		var names []string
		seconds := map[string]float64{}
		for _, s := range tt.got.spans {
			names = append(names, s.Name)
			seconds[s.Name] = float64(s.EndTimeUnixNano-s.StartTimeUnixNano) / 1e9
			if s.Name == "run" && string(s.ParentSpanId) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" {
				t.Errorf("%s: the parent of the run is %x", tt.protocol, s.ParentSpanId)
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"apply", "attempt", "image", "run", "test"}, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.protocol, diff)
		}
		if seconds["test"] != 9 || seconds["attempt"] != 12 || seconds["image"] != 2 {
			t.Errorf("%s: the spans last %v", tt.protocol, seconds)
		}
		if len(tt.got.names) == 0 || tt.got.names[0] != "nightly" {
			t.Errorf("%s: the service is called %v", tt.protocol, tt.got.names)
		}
	}
}

// Without the variables nothing is traced; with wrong ones it is said.
func TestTracesOff(t *testing.T) {
	tests := []struct {
		env     map[string]string
		on, bad bool
	}{
		{map[string]string{}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, false},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, true},
	}
	for _, tt := range tests {
		noEnvironment(t)
		for name, value := range tt.env {
			t.Setenv(name, value)
		}
		exporter, err := exporterFromEnv(context.Background())
		if (exporter != nil) != tt.on || (err != nil) != tt.bad {
			t.Errorf("%v: %v, %v", tt.env, exporter, err)
		}
	}
}
