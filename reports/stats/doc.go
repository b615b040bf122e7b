// Package stats has the statistics behind evalrun's reports: intervals of rates,
// paired tests, corrections for many tests, power, repeated attempts, stability
// of rankings.
//
// Every function is pure: numbers in, numbers out, and the same numbers for the
// same seed on every machine. The package must not know what an instance, a run
// or a model is. docs/statistics.md has the formulas and their sources.
package stats
