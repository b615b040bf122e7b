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
	{"internal/sandbox", nil},
	{"internal/architecture", nil},

	// What is fetched to this machine: repositories, tool chains.
	{"internal/mirror", []string{"cache"}},
	{"internal/toolchain", []string{"cache"}},

	// Pure functions on logs and rows.
	{"grading/...", []string{"grading/..."}},

	// Where rows come from. They know rows, not what is done with them.
	{"datasets/...", []string{"cache", "datasets/..."}},

	// From attempts to files and tables.
	{"reports", []string{"cache", "grading/..."}},
	{"internal/journal", []string{"cache", "grading", "reports"}},

	// From rows to images. Only the root reads rows; the layers get specifications.
	{"images", []string{"cache", "datasets", "internal/mirror"}},
	{"images/...", []string{"cache", "images/...", "internal/mirror"}},

	// Engines: what a sandbox is, and the ones there are.
	{"internal/sandbox/...", []string{"internal/sandbox/..."}},
	{"internal/engine", []string{"images/builder", "internal/sandbox/..."}},

	// One attempt after the other, on any engine, with images from anywhere.
	{"internal/runner", []string{"cache", "datasets", "grading/...", "internal/journal", "internal/patch", "internal/sandbox", "reports"}},
	{"internal/provision", []string{"cache", "datasets/...", "images/...", "internal/runner"}},

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
	kubernetes = []string{"k8s.io"}
)

// engineFree packages can be read, tested and reused without any engine.
var engineFree = []string{
	"cache", "datasets/...", "grading/...", "reports", "images",
	"internal/mirror", "internal/toolchain", "internal/patch", "internal/sandbox", "internal/runner",
}

// confined may be imported directly by the listed packages only.
var confined = []rule{
	{docker, []string{"internal/sandbox/docker/..."}},
	{buildKit, []string{"images/base", "images/env", "images/instance", "images/builder", "internal/sandbox/docker/...", "internal/engine"}},
	{kubernetes, []string{"internal/sandbox/kubernetes", "internal/engine"}},
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
