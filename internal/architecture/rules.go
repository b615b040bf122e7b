package architecture

// row says which packages of ours a package may import.
type row struct {
	pkg     string
	imports []string
}

// mayImport is read from the top; the first row that matches a package counts.
// Imports point down: whatever a row names stands above it. Within a tree
// ("images/...") the compiler keeps imports from going round.
var mayImport = []row{
	// At the bottom: they know nothing of ours.
	{"cache", nil},
	{"datasets", nil},
	{"internal/patch", nil},
	{"internal/cause", nil},
	{"internal/sandbox", []string{"internal/cause"}},
	{"internal/architecture", nil},
	{"internal/reference", nil}, // of tests only
	{"internal/screen", []string{"internal/patch"}},
	{"internal/pull", []string{"internal/cause"}},
	{"internal/journal", nil},
	{"internal/room", nil},
	{"internal/rootless", nil},
	{"internal/schedule", nil},
	{"reports/stats", nil},

	// What is kept on this machine.
	{"internal/upkeep", []string{"cache"}},

	// What is fetched to this machine: repositories, tool chains.
	{"internal/mirror", []string{"cache"}},
	{"internal/toolchain", []string{"cache"}},

	// Pure functions on logs and rows.
	{"grading/...", []string{"grading/..."}},

	// Where rows come from. They know rows, not what is done with them.
	{"datasets/...", []string{"cache", "datasets/..."}},

	// From attempts to files and tables.
	{"reports", []string{"cache", "grading/...", "internal/journal", "internal/screen", "reports/stats"}},
	{"reports/...", []string{"cache", "grading/...", "reports", "reports/..."}},

	// Logs that are already there, and faults of rows: no engine, no images.
	{"internal/regrade", []string{"datasets", "grading/...", "reports"}},
	{"internal/submission", []string{"cache", "datasets", "grading/...", "internal/regrade", "reports", "reports/results"}},
	{"internal/lint", []string{"datasets/...", "grading/logparse", "internal/patch"}},
	// What of a run is done, and where else the same was.
	{"internal/ledger", []string{"cache", "datasets", "grading/...", "internal/journal", "internal/regrade", "internal/screen", "reports"}},
	// A run's files against each other, its logs and its rows.
	{"internal/verify", []string{"cache", "datasets/...", "grading/...", "internal/regrade", "reports", "reports/provenance"}},

	// From rows to images. Only the root reads rows; the layers get specifications.
	{"images", []string{"cache", "datasets", "internal/mirror"}},
	{"images/...", []string{"cache", "images/...", "internal/cause", "internal/mirror", "internal/rootless"}},

	// Engines: what a sandbox is, and the ones there are.
	{"internal/sandbox/...", []string{"internal/cause", "internal/pull", "internal/rootless", "internal/sandbox/..."}},
	{"internal/audit", []string{"internal/sandbox"}},
	{"internal/buildkit", []string{"cache", "internal/pull", "internal/rootless"}},
	{"internal/engine", []string{"images/builder", "internal/buildkit", "internal/rootless", "internal/sandbox/..."}},

	// One attempt after the other, on any engine, with images from anywhere.
	{"internal/runner", []string{"cache", "datasets", "grading/...", "internal/cause", "internal/patch", "internal/sandbox", "internal/schedule", "internal/screen", "reports"}},
	{"internal/provision", []string{"cache", "datasets/...", "images/...", "internal/cause", "internal/runner"}},

	// What a runner tells, for people and other programs.
	{"internal/observe", []string{"grading/...", "internal/cause", "internal/runner", "reports"}},

	// Patches that try to buy a verdict; its tests grade them with everything.
	{"internal/redteam", nil},

	// The top: flags, wiring, drawing, exit codes.
	{"cmd/...", []string{"..."}},
}

// rule names packages of other modules or of the standard library, with all
// below them, and packages of ours.
type rule struct {
	outside  []string
	packages []string
}

var (
	docker     = []string{"github.com/docker/docker", "github.com/docker/cli", "github.com/docker/go-connections", "github.com/moby/moby"}
	buildKit   = []string{"github.com/moby/buildkit", "github.com/tonistiigi/fsutil"}
	containerd = []string{"github.com/containerd/containerd", "github.com/containerd/fuse-overlayfs-snapshotter"}
)

// engineFree packages can be read, tested and reused without any engine.
var engineFree = []string{
	"cache", "datasets/...", "grading/...", "reports/...", "images",
	"internal/mirror", "internal/toolchain", "internal/journal", "internal/patch", "internal/screen", "internal/cause", "internal/sandbox", "internal/schedule", "internal/runner",
	"internal/ledger", "internal/room", "internal/upkeep", "internal/regrade", "internal/submission", "internal/lint", "internal/verify",
}

// confined may be imported directly by the listed packages only.
var confined = []rule{
	{docker, []string{"internal/sandbox/docker/..."}},
	{buildKit, []string{"images/base", "images/env", "images/instance", "images/builder", "internal/sandbox/docker/...", "internal/buildkit", "internal/engine"}},
	{[]string{"github.com/prometheus", "go.opentelemetry.io/otel/sdk/trace", "go.opentelemetry.io/otel/exporters"}, []string{"internal/observe"}},
	{containerd, []string{"internal/buildkit", "internal/sandbox/oci"}},
	{[]string{"gonum.org/v1/plot"}, []string{"reports/html"}},
}

// unreachable must stay out of the listed packages, by whatever way.
var unreachable = []rule{
	{docker, engineFree},
	{buildKit, engineFree},
	// Verdicts are a function of a log and a row.
	{[]string{"net", "os/exec"}, []string{"grading/..."}},
}

// meaningless names say where code was put and not what it does.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib"}
