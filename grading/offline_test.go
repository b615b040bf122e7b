package grading

import "testing"

func TestOfflineSign(t *testing.T) {
	tests := []struct{ name, log, want string }{
		{"go", "+ go test -v .\nmodules/ca.go:30:2: module lookup disabled by GOPROXY=off\n", "modules/ca.go:30:2: module lookup disabled by GOPROXY=off"},
		{"maven", "[ERROR] Cannot access central in offline mode and the artifact x:y:jar:1 has not been downloaded from it before.",
			"[ERROR] Cannot access central in offline mode and the artifact x:y:jar:1 has not been downloaded from it before."},
		{"npm", "npm ERR! code ENOTCACHED\n", "npm ERR! code ENOTCACHED"},
		{"a build that broke", "x.go:3:1: syntax error: unexpected }\nFAIL\tx [build failed]\n", ""},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		if got := OfflineSign(tt.log); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
