package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/grading"
	"github.com/evalrun/evalrun/reports"
)

// baselineSchema is the version of a baseline file.
const baselineSchema = 1

// baseline is a small file to keep in a repository: one line for each instance,
// in order, so that its history can be read.
type baseline struct {
	Baseline int    `json:"baseline"` // baselineSchema
	Model    string `json:"model_name_or_path"`
	Run      string `json:"run_id"`
	Dataset  string `json:"dataset_sha256"`
	Rules    string `json:"rules"`
	// NoPrediction are the instances that the system gave nothing for: what was not
	// run for that reason is its own doing. Files of older versions do not say.
	NoPrediction []string                   `json:"no_prediction"`
	Outcomes     map[string]grading.Outcome `json:"outcomes"`
}

// WriteBaseline writes the outcomes of a set as a baseline file.
func WriteBaseline(path string, s *Set) error {
	b := baseline{Baseline: baselineSchema, Model: s.Model, Run: s.Run, Dataset: s.Dataset, Rules: s.Rules,
		NoPrediction: []string{}, Outcomes: map[string]grading.Outcome{}}
	for i := range s.Items {
		it := &s.Items[i]
		b.Outcomes[it.ID] = it.Outcome
		if !it.Submitted {
			b.NoPrediction = append(b.NoPrediction, it.ID)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(b)
	if err == nil {
		err = cache.WriteFile(path, out.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	return nil
}

func loadBaseline(path string, data []byte) ([]*Set, error) {
	var b baseline
	if err := decode(path, data, &b); err != nil {
		return nil, err
	}
	if b.Baseline != baselineSchema {
		return nil, &FileError{path, lineOf(data, "baseline", 1), fmt.Errorf("baseline has schema %d, this evalrun reads %d", b.Baseline, baselineSchema)}
	}
	s := &Set{Name: b.Model, Model: b.Model, Run: b.Run, Kind: KindBaseline, Source: path, Dataset: b.Dataset, Rules: b.Rules}
	if s.Name == "" {
		s.Name = path
	}
	for id, outcome := range b.Outcomes {
		if id == "" || !knownOutcome(outcome) {
			return nil, &FileError{path, lineOf(data, id, 1), unknownOutcome(id, outcome)}
		}
		s.Items = append(s.Items, Item{ID: id, Outcome: outcome, Submitted: true})
	}
	s.sort()
	for _, id := range b.NoPrediction {
		it := s.Find(id)
		if it == nil {
			return nil, &FileError{path, lineOf(data, id, 1), fmt.Errorf("no_prediction names %q, which has no outcome", id)}
		}
		it.Submitted = false
	}
	return []*Set{s}, nil
}

// knownOutcome reports whether an outcome is one of those that files may hold.
func knownOutcome(o grading.Outcome) bool {
	return o == Error || slices.Contains(reports.Outcomes(), o)
}

func unknownOutcome(id string, o grading.Outcome) error {
	var known []string
	for _, k := range reports.Outcomes() {
		known = append(known, string(k))
	}
	if id == "" {
		return errors.New("has an instance without a name")
	}
	return fmt.Errorf("instance %q has outcome %q; want one of %s, %s", id, o, strings.Join(known, ", "), Error)
}
