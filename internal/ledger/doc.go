// Package ledger knows what of a run is done. It keeps the run's folder to one
// process, writes down every change of state in the run's journal, and finds for an
// attempt the result it need not be made for: its own of an earlier call, that of
// another attempt at the same patch in this run, or one of another run.
//
// Only results of the patch are taken, and only where everything that determines
// them is equal. Where no more than the rules or the parser differ, the stored log is
// graded again.
//
// It must not know how attempts are made.
package ledger
