// Package logparse reads raw test logs: it cuts a log at the harness's markers
// and turns the output of a test runner into a status for each test.
//
// There is one parser for each framework, registered under the names that
// SWE-bench rows use ("parse_log_pytest"). Names and quirks are those of the
// official harness, because the test ids of the datasets were made with it: a
// parser that reads a log "better" finds ids that no row knows. Where the
// official parser gives up on an input, this one keeps what it has read and says
// why in Result.Reason.
//
// Parsers never fail, never panic and take time linear in the length of the log.
//
// The package must not know about FAIL_TO_PASS, verdicts, files or containers.
package logparse
