package swebench

import (
	"strings"

	"github.com/evalrun/evalrun/datasets"
)

const (
	matplotlib       = "matplotlib/matplotlib"
	matplotlibConfig = "/opt/evalrun/mplsetup.cfg"

	matplotlibDeviation = "matplotlib is built with the FreeType and Qhull of Debian, since its own could not be downloaded: image comparisons may differ"
)

// matplotlibLibraries lets matplotlib build where the hosts of its own copies of
// Qhull and FreeType cannot be reached: then, and only then, Debian's libraries
// are used, by the project's own setting for that (setupext.py, MPLSETUPCFG).
func matplotlibLibraries(r *datasets.Recipe) {
	var kept, fetch []string
	for _, line := range r.PreInstall {
		switch {
		case strings.HasPrefix(line, "wget "):
			fetch = append(fetch, line+" --tries=1 --timeout=20")
		case strings.Contains(line, "QHULL_BUILD_DIR") && !strings.HasPrefix(line, "QHULL_BUILD_DIR="):
			fetch = append(fetch, line)
		default:
			kept = append(kept, line)
		}
	}
	if len(fetch) == 0 {
		return
	}
	r.PreInstall = append(kept,
		"mkdir -p "+strings.TrimSuffix(matplotlibConfig, "/mplsetup.cfg"),
		"if "+strings.Join(fetch, " && ")+"; then : > "+matplotlibConfig+
			"; else printf '[libs]\\nsystem_freetype = True\\nsystem_qhull = True\\n' > "+matplotlibConfig+
			"; echo '"+matplotlibDeviation+"' >> /opt/evalrun/deviations.txt; fi")
	r.Environment.Apt = appendNew(r.Environment.Apt, "libqhull-dev", "libfreetype6-dev", "pkg-config")
	r.Environment.Env = append(r.Environment.Env, "MPLSETUPCFG="+matplotlibConfig)
}
