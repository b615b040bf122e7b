// Package reports turns the attempts of a run into what people and tools read:
// the official per-instance and per-run JSON, evalrun's own attempt.json and
// run.json, and the table on the terminal.
//
// It reads the verdict types of package grading. It must not know how tests
// were run, and it never changes a verdict.
package reports
