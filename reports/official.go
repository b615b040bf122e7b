package reports

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/evalrun/evalrun/grading"
)

// officialReport is the inner object of the official report.json, with its
// keys in the official order (harness 5.x).
type officialReport struct {
	PatchIsNone  bool                 `json:"patch_is_None"`
	PatchExists  bool                 `json:"patch_exists"`
	PatchApplied bool                 `json:"patch_successfully_applied"` // really: the log could be graded
	Resolved     bool                 `json:"resolved"`
	InfraFailure bool                 `json:"infra_failure"`
	InfraReason  string               `json:"infra_failure_reason,omitempty"`
	Tests        *grading.TestsStatus `json:"tests_status,omitempty"`
}

// GradingReached reports whether the official harness would have written a
// report.json for the attempt: only where its tests ran to their end.
func GradingReached(a *Attempt) bool {
	if a.Verdict == nil {
		return false
	}
	switch a.Outcome {
	case grading.Resolved, grading.Unresolved, grading.Ungradeable,
		grading.OutOfMemory, grading.DiskLimit, grading.Tampering, grading.Inconsistent:
		return true
	}
	return false
}

// OfficialReport encodes the attempt as the official report.json, byte for
// byte. WriteAttempt calls it only where GradingReached.
func OfficialReport(a *Attempt) ([]byte, error) {
	var r officialReport
	switch {
	case a.Patch.Null:
		r.PatchIsNone = true
	case a.Verdict == nil || !a.Verdict.Found:
		r.PatchExists = true
		if a.Verdict != nil && a.Verdict.InfraClass != "" {
			r.InfraFailure = a.Verdict.InfraFailure()
			r.InfraReason = a.Verdict.InfraClass
		}
	default:
		r.PatchExists, r.PatchApplied = true, true
		r.Resolved = officialResolved(a)
		r.Tests = listsNotNull(a.Verdict.Tests)
	}
	data, err := encodePython(map[string]officialReport{a.InstanceID: r})
	return bytes.TrimSuffix(data, []byte("\n")), err
}

// officialResolved: an outcome that was decided by more than the tests, such as
// a memory limit, is not resolved in the official files either.
func officialResolved(a *Attempt) bool {
	return a.Outcome == grading.Resolved && a.Verdict != nil && a.Verdict.Resolved
}

// listsNotNull returns a copy in which empty lists are [] and not null.
func listsNotNull(t *grading.TestsStatus) *grading.TestsStatus {
	var out grading.TestsStatus
	if t != nil {
		out = *t
	}
	for _, s := range []*grading.Split{&out.FailToPass, &out.PassToPass, &out.FailToFail, &out.PassToFail} {
		s.Success, s.Failure = notNil(s.Success), notNil(s.Failure)
	}
	return &out
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// OfficialInput is what the official run summary of one model is made from.
type OfficialInput struct {
	DatasetIDs    []string // the instances of the run, after selection
	PredictionIDs []string // every prediction of the file, whether selected or not
	Attempts      []Attempt
	Leftovers     *Leftovers // nil when no engine could be asked
}

// Leftovers is what a run left behind in its engine.
type Leftovers struct {
	Containers []string
	Images     []string
}

// OfficialRun is the official run summary, schema_version 2, with its keys in
// the official order (harness 5.x).
type OfficialRun struct {
	TotalInstances            int               `json:"total_instances"`
	SubmittedInstances        int               `json:"submitted_instances"`
	CompletedInstances        int               `json:"completed_instances"`
	ResolvedInstances         int               `json:"resolved_instances"`
	UnresolvedInstances       int               `json:"unresolved_instances"`
	InfraFailureInstances     int               `json:"infra_failure_instances"`
	AmbiguousFailureInstances int               `json:"ambiguous_failure_instances"`
	EmptyPatchInstances       int               `json:"empty_patch_instances"`
	ErrorInstances            int               `json:"error_instances"`
	CompletedIDs              []string          `json:"completed_ids"`
	IncompleteIDs             []string          `json:"incomplete_ids"`
	EmptyPatchIDs             []string          `json:"empty_patch_ids"`
	SubmittedIDs              []string          `json:"submitted_ids"`
	ResolvedIDs               []string          `json:"resolved_ids"`
	UnresolvedIDs             []string          `json:"unresolved_ids"`
	InfraFailureIDs           []string          `json:"infra_failure_ids"`
	AmbiguousFailureIDs       []string          `json:"ambiguous_failure_ids"`
	FailureReasons            map[string]string `json:"failure_reasons"`
	ErrorIDs                  []string          `json:"error_ids"`
	SchemaVersion             int               `json:"schema_version"`
	UnstoppedInstances        *int              `json:"unstopped_instances,omitempty"`
	UnstoppedContainers       []string          `json:"unstopped_containers,omitzero"`
	UnremovedImages           []string          `json:"unremoved_images,omitzero"`
}

// NewOfficialRun sorts the instances of a run into the official lists. Each
// instance is in exactly one of incomplete, empty_patch, completed and error;
// completed is resolved and unresolved together.
//
// Where the official harness knows only what its logs say, the infra and
// ambiguous lists take an outcome of ours first: a failed build or engine is an
// infrastructure failure whatever the log holds.
func NewOfficialRun(in OfficialInput) OfficialRun {
	predicted := idSet(in.PredictionIDs)
	attempts := byInstance(in.Attempts)
	lists := map[string][]string{}
	reasons := map[string]string{}
	add := func(list, id string) { lists[list] = append(lists[list], id) }

	dataset := slices.Sorted(maps.Keys(idSet(in.DatasetIDs)))
	for _, id := range dataset {
		a := attempts[id]
		class := officialClass(a, predicted[id])
		add(class, id)
		if class == "incomplete" || class == "empty" || class == "resolved" {
			continue
		}
		reason, environment := failureReason(a)
		if reason == "" {
			continue
		}
		reasons[id] = reason
		if environment {
			add("infra", id)
		} else {
			add("ambiguous", id)
		}
	}
	completed := slices.Sorted(slices.Values(slices.Concat(lists["resolved"], lists["unresolved"])))

	run := OfficialRun{
		TotalInstances:            len(dataset),
		SubmittedInstances:        len(predicted),
		CompletedInstances:        len(completed),
		ResolvedInstances:         len(lists["resolved"]),
		UnresolvedInstances:       len(lists["unresolved"]),
		InfraFailureInstances:     len(lists["infra"]),
		AmbiguousFailureInstances: len(lists["ambiguous"]),
		EmptyPatchInstances:       len(lists["empty"]),
		ErrorInstances:            len(lists["error"]),
		CompletedIDs:              notNil(completed),
		IncompleteIDs:             notNil(lists["incomplete"]),
		EmptyPatchIDs:             notNil(lists["empty"]),
		SubmittedIDs:              notNil(slices.Sorted(maps.Keys(predicted))),
		ResolvedIDs:               notNil(lists["resolved"]),
		UnresolvedIDs:             notNil(lists["unresolved"]),
		InfraFailureIDs:           notNil(lists["infra"]),
		AmbiguousFailureIDs:       notNil(lists["ambiguous"]),
		FailureReasons:            reasons,
		ErrorIDs:                  notNil(lists["error"]),
		SchemaVersion:             2,
	}
	if left := in.Leftovers; left != nil {
		containers := slices.Sorted(maps.Keys(idSet(left.Containers)))
		n := len(containers)
		run.UnstoppedInstances = &n
		run.UnstoppedContainers = notNil(containers)
		run.UnremovedImages = notNil(slices.Sorted(maps.Keys(idSet(left.Images))))
	}
	return run
}

// officialClass names the official list an instance belongs to.
func officialClass(a *Attempt, predicted bool) string {
	switch {
	case !predicted:
		return "incomplete"
	case a == nil:
		return "error"
	case a.Outcome == grading.EmptyPatch:
		return "empty"
	case !GradingReached(a):
		return "error"
	case officialResolved(a):
		return "resolved"
	}
	return "unresolved"
}

// failureReason gives the reason in failure_reasons and whether it is of the
// environment; "" if nothing but the patch is known to be at fault.
func failureReason(a *Attempt) (reason string, environment bool) {
	if a == nil {
		return string(grading.NotRun), true
	}
	switch a.Outcome {
	case grading.BuildFailed, grading.InfraFailed, grading.NotRun:
		return string(a.Outcome), true
	}
	if a.Sign.Class != "" {
		return a.Sign.Class, !a.Sign.Ambiguous
	}
	if a.Outcome == grading.TimedOut {
		return signTimedOut, false
	}
	return "", false
}

// Encode gives the bytes of the official summary file.
func (r OfficialRun) Encode() ([]byte, error) { return encodePython(r) }

// WriteOfficialRun writes <model>.<run>.json and returns its path.
func WriteOfficialRun(l Layout, run, model string, r OfficialRun) (string, error) {
	path := l.SummaryFile(run, model)
	data, err := r.Encode()
	if err == nil {
		err = writeFile(path, data)
	}
	if err != nil {
		return "", fmt.Errorf("write the run summary of model %q: %w", model, err)
	}
	return path, nil
}

func idSet(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// byInstance indexes attempts; of several at one instance the last counts.
func byInstance(attempts []Attempt) map[string]*Attempt {
	out := make(map[string]*Attempt, len(attempts))
	for i := range attempts {
		out[attempts[i].InstanceID] = &attempts[i]
	}
	return out
}

// encodePython encodes as Python's json.dumps(v, indent=4) does, plus a final
// newline: the same indentation, and everything outside printable ASCII as
// \uXXXX, in surrogate pairs where one does not suffice.
func encodePython(v any) ([]byte, error) {
	data, err := encodeJSON(v, "    ")
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		data = data[size:]
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, nil
}
