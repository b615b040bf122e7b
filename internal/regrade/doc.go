// Package regrade grades logs that are already there: of the official harness's
// logs/run_evaluation, of runs of ours, or of a file of log lines. It starts
// nothing.
//
// It finds the logs, chooses the evidence (a run of ours has better evidence than
// its log's own word), and compares rule sets. It must not know about images,
// sandboxes or how results are drawn; verdicts are package grading's.
package regrade
