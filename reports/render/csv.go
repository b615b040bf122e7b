package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/evalrun/evalrun/reports/results"
)

// CSV writes one line for each instance of each set. Text that a spreadsheet would
// take for a formula gets an apostrophe in front.
func CSV(w io.Writer, sets []*results.Set, facts map[string]results.Facts) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180
	out.Write([]string{"system", "model_name_or_path", "run_id", "instance_id", "repo", "outcome", "resolved", "evaluated", "submitted",
		"fail_to_pass_passed", "fail_to_pass_total", "pass_to_pass_passed", "pass_to_pass_total", "seconds", "reason"})
	for _, s := range sets {
		for i := range s.Items {
			it := &s.Items[i]
			row := []string{
				cellText(s.Name), cellText(s.Model), cellText(s.Run), cellText(it.ID), cellText(results.RepoOf(it, facts[it.ID])), cellText(string(it.Outcome)),
				strconv.FormatBool(it.Resolved()), strconv.FormatBool(it.Outcome.Evaluated()), strconv.FormatBool(it.Submitted),
			}
			row = append(append(row, counts(it.FailToPass)...), counts(it.PassToPass)...)
			out.Write(append(row, seconds(it.Seconds), cellText(it.Reason)))
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func counts(t *results.Tests) []string {
	if t == nil {
		return []string{"", ""}
	}
	return []string{strconv.Itoa(len(t.Passed)), strconv.Itoa(t.Total())}
}

func seconds(s float64) string {
	if s <= 0 {
		return ""
	}
	return strconv.FormatFloat(s, 'f', 3, 64)
}

// cellText makes text from outside safe to open in a spreadsheet. White space in
// front of a formula does not keep it from being one.
func cellText(s string) string {
	s = strings.ReplaceAll(s, "\x00", "")
	trimmed := strings.TrimLeft(s, " \t\r\n\u00a0\u3000\ufeff")
	if trimmed != "" && strings.ContainsAny(trimmed[:1], "=+-@|%") || strings.HasPrefix(s, "\t") || strings.HasPrefix(s, "\r") {
		return "'" + s
	}
	for _, wide := range []string{"＝", "＋", "－", "＠"} { // taken for the narrow ones
		if strings.HasPrefix(trimmed, wide) {
			return "'" + s
		}
	}
	return s
}
