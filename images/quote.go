package images

import "strings"

// ShellQuote renders a word so that a POSIX shell reads it back unchanged.
func ShellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
