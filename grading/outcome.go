package grading

// Outcome says how one attempt at one instance ended, and so whose doing it was.
// The outcomes of a run always add up to its instances.
type Outcome string

const (
	Resolved     Outcome = "resolved"
	Unresolved   Outcome = "unresolved"
	EmptyPatch   Outcome = "empty_patch"
	ApplyFailed  Outcome = "apply_failed"  // the patch does not apply to base_commit
	TimedOut     Outcome = "timed_out"     // the tests outlived their wall-clock limit
	OutOfMemory  Outcome = "out_of_memory" // the tests were killed at their own memory limit
	DiskLimit    Outcome = "disk_limit"    // the tests wrote more than the sandbox's disk limit
	SilenceLimit Outcome = "silence_limit" // the tests printed nothing for longer than their limit
	Tampering    Outcome = "tampering"     // the patch does what its policy does not allow, or is resolved only through what runs the tests
	Inconsistent Outcome = "inconsistent"  // the log says resolved, and other evidence contradicts it

	Ungradeable Outcome = "ungradeable"  // no statuses could be read from the log
	BuildFailed Outcome = "build_failed" // an image could not be built or pulled
	InfraFailed Outcome = "infra_failed" // the engine or the host failed
	NotRun      Outcome = "not_run"      // interrupted, or no prediction
)

// Fault says who answers for an outcome.
type Fault string

const (
	FaultPatch          Fault = "patch"
	FaultDataset        Fault = "dataset"
	FaultEnvironment    Fault = "environment"
	FaultInfrastructure Fault = "infrastructure"
	FaultNone           Fault = ""
)

// Fault returns whose doing the outcome is. Only outcomes of FaultPatch (and
// Resolved) are results of the model; the others are never scored against it.
func (o Outcome) Fault() Fault {
	switch o {
	case Unresolved, EmptyPatch, ApplyFailed, TimedOut, OutOfMemory, DiskLimit, SilenceLimit, Tampering, Inconsistent:
		return FaultPatch
	case Ungradeable:
		return FaultDataset
	case BuildFailed:
		return FaultEnvironment
	case InfraFailed:
		return FaultInfrastructure
	}
	return FaultNone
}

// Evaluated reports whether the outcome is a result of the patch.
func (o Outcome) Evaluated() bool { return o == Resolved || o.Fault() == FaultPatch }
