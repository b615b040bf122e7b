package rootless

import (
	"slices"
	"testing"
)

func TestRangesOf(t *testing.T) {
	const table = "root:1:1\nann:100000:65536\n# note\nbob:300000\nann:x:5\n1001:400000:10\nann : 1 : 1\n\nann:-5:10\n"
	tests := []struct {
		name, id string
		want     []idRange
	}{
		{"ann", "1000", []idRange{{100000, 65536}}},
		{"ann", "1001", []idRange{{100000, 65536}, {400000, 10}}},
		{"bob", "1002", nil},
		{"an", "10", nil},
	}
	for _, tt := range tests {
		if got := rangesOf(table, tt.name, tt.id); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMapArgs(t *testing.T) {
	got := mapArgs(1000, []idRange{{100000, 65536}, {400000, 10}})
	want := []string{"0", "1000", "1", "1", "100000", "65536", "65537", "400000", "10"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWholeMap(t *testing.T) {
	tests := []struct {
		table string
		want  bool
	}{
		{"         0          0 4294967295\n", true},
		{"         0       1000          1\n         1     100000      65536\n", false},
		{"         0          0      65536\n", false},
		{"", false},
	}
	for _, tt := range tests {
		if got := wholeMap(tt.table); got != tt.want {
			t.Errorf("%q: %v", tt.table, got)
		}
	}
}
