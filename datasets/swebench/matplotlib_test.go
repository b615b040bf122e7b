package swebench

import (
	"strings"
	"testing"

	"github.com/evalrun/evalrun/datasets"
)

func TestMatplotlibBuildsWithoutItsDownloads(t *testing.T) {
	inst := &datasets.Instance{ID: "matplotlib__matplotlib-1", Repo: "matplotlib/matplotlib", Version: "3.7", EvalScript: "x"}
	r, err := Derive(inst)
	if err != nil {
		t.Fatal(err)
	}
	pre := strings.Join(r.PreInstall, "\n")
	for _, want := range []string{"if wget -O \"$QHULL_TAR\" \"$QHULL_URL\" --tries=1 --timeout=20 && mkdir", "system_qhull = True", "QHULL_URL="} {
		if !strings.Contains(pre, want) {
			t.Errorf("the steps lack %q:\n%s", want, pre)
		}
	}
	if got := strings.Join(r.Environment.Env, " "); got != "MPLSETUPCFG=/opt/evalrun/mplsetup.cfg" {
		t.Errorf("env %q", got)
	}
	if !strings.Contains(pre, "could not be downloaded: image comparisons may differ' >> /opt/evalrun/deviations.txt") {
		t.Errorf("the deviation is not noted where it arises:\n%s", pre)
	}
}
