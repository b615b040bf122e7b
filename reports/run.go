package reports

import (
	"encoding/json"
	"fmt"
	"os"
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

	InstanceIDs  []string          `json:"instance_ids"`  // after selection, in the order of the dataset
	ImageDigests map[string]string `json:"image_digests"` // instance -> sha256:…
	Deviations   []string          `json:"deviations"`    // where an environment was not the pinned one
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
	data, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("run %q: %w", run, err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("run %q: %s is torn or not a run.json: %w", run, path, err)
	}
	if r.SchemaVersion != RunSchema {
		return r, fmt.Errorf("run %q: %s has schema_version %d, this evalrun reads %d", run, path, r.SchemaVersion, RunSchema)
	}
	return r, nil
}
