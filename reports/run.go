package reports

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// RunRecord is run.json: what was run on what, with which versions and limits,
// so that a verdict can be understood and repeated later. It never holds the
// name of the host, nor a path other than as the user typed it.
type RunRecord struct {
	SchemaVersion int       `json:"schema_version"` // RunSchema
	RunID         string    `json:"run_id"`
	CreatedAt     time.Time `json:"created_at"` // UTC, whole seconds

	Dataset     DatasetRecord      `json:"dataset"`
	Predictions []PredictionRecord `json:"predictions"`
	Models      []string           `json:"models"`
	Instances   int                `json:"instances"` // after selection

	Evalrun  string       `json:"evalrun"` // version of this program
	Rules    string       `json:"rules"`   // grading rule set
	Engine   EngineRecord `json:"engine"`
	Kernel   string       `json:"kernel"`
	Platform string       `json:"platform"` // linux/amd64
	Limits   LimitsRecord `json:"limits"`
	Network  string       `json:"network"` // what the probe found: "none (verified)"
	Workers  int          `json:"workers"`
	Attempts int          `json:"attempts,omitempty"` // at each instance, where there are several

	InstanceIDs []string `json:"instance_ids"` // after selection, in the order of the dataset
	// NoPrediction has the selected instances for which a model gave nothing. They
	// are not run, and unlike others that are not, it is the model's doing.
	NoPrediction map[string][]string `json:"no_prediction,omitempty"`
	ImageDigests map[string]string   `json:"image_digests"` // instance -> sha256:…
	Deviations   []string            `json:"deviations"`    // where an environment was not the pinned one

	RowHashes  map[string]string `json:"row_hashes,omitempty"` // instance -> SHA-256 of what in its row determines a verdict
	FinishedAt time.Time         `json:"finished_at,omitzero"` // UTC, whole seconds; missing while the run goes on
	Reused     map[string]int    `json:"reused,omitempty"`     // model -> results taken from other attempts at the same
	Build      BuildRecord       `json:"build,omitzero"`       // of this program
	Host       HostRecord        `json:"host,omitzero"`        // what kind of machine, never which
	Policy     map[string]string `json:"policy,omitempty"`     // flags that change what is run or believed, by name
}

// BuildRecord is what the compiler wrote into the program.
type BuildRecord struct {
	Revision string `json:"revision,omitempty"` // commit
	Modified bool   `json:"modified,omitempty"` // of a tree with changes
	Go       string `json:"go,omitempty"`
}

// HostRecord is the class of the machine that ran the sandboxes.
type HostRecord struct {
	CPUs         int    `json:"cpus,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes,omitempty"` // of the machine evalrun runs on
}

// RunSchema is the schema_version of run.json.
const RunSchema = 1

// DatasetRecord names a dataset as the user did, and its content.
type DatasetRecord struct {
	Name   string `json:"name"`
	Split  string `json:"split,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// PredictionRecord is one file or folder of predictions; gold and empty have no
// content of their own.
type PredictionRecord struct {
	Path   string `json:"path"` // as typed
	SHA256 string `json:"sha256,omitempty"`
}

// EngineRecord is what the engine said of itself.
type EngineRecord struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	APIVersion    string `json:"api_version,omitempty"`
	StorageDriver string `json:"storage_driver,omitempty"`
	Cgroup        string `json:"cgroup,omitempty"`
	Runtime       string `json:"runtime,omitempty"`
	Why           string `json:"why,omitempty"` // it was taken
}

// WriteRun writes run.json.
func WriteRun(l Layout, r RunRecord) error {
	if err := writeJSON(l.RunFile(r.RunID), r.complete()); err != nil {
		return fmt.Errorf("run %q: write run.json: %w", r.RunID, err)
	}
	return nil
}

// complete returns the record as it is written: lists that are there but empty
// are [] and {}, never null.
func (r RunRecord) complete() RunRecord {
	r.SchemaVersion = RunSchema
	r.CreatedAt = r.CreatedAt.UTC().Truncate(time.Second)
	if !r.FinishedAt.IsZero() {
		r.FinishedAt = r.FinishedAt.UTC().Truncate(time.Second)
	}
	r.Models = notNil(r.Models)
	r.Deviations = notNil(r.Deviations)
	r.InstanceIDs = notNil(r.InstanceIDs)
	if r.Predictions == nil {
		r.Predictions = []PredictionRecord{}
	}
	if r.ImageDigests == nil {
		r.ImageDigests = map[string]string{}
	}
	return r
}

// LoadRun reads run.json back. The error wraps fs.ErrNotExist when there is
// no such run.
func LoadRun(l Layout, run string) (RunRecord, error) {
	var r RunRecord
	path := l.RunFile(run)
	data, err := ReadRegular(path)
	if err == nil && data == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return r, fmt.Errorf("run %q: %w", run, err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("run %q: %s is torn or not a run.json: %w", run, path, err)
	}
	if r.SchemaVersion != RunSchema {
		return r, fmt.Errorf("run %q: %s has schema_version %d, this evalrun reads %d", run, path, r.SchemaVersion, RunSchema)
	}
	for what, names := range map[string][]string{"models": r.Models, "instance_ids": r.InstanceIDs} {
		if slices.Contains(names, "") {
			return r, fmt.Errorf("run %q: %s has an empty name in %s", run, path, what)
		}
	}
	if models := slices.Sorted(slices.Values(r.Models)); len(slices.Compact(models)) < len(r.Models) {
		return r, fmt.Errorf("run %q: %s names a model twice", run, path)
	}
	return r, nil
}
