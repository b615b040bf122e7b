// Package grading turns test statuses and a row's FAIL_TO_PASS and
// PASS_TO_PASS into a verdict, under a named rule set.
//
// It is pure: no files, no clock, no containers. It must not know where a log
// came from or how it will be shown.
package grading
