package logparse

type (
	linesFunc = func(Context, *Result) lineParser
	textFunc  = func(Context, string, *Result)
)

func byLine(f linesFunc) parser { return parser{lines: f} }
func byText(f textFunc) parser  { return parser{text: f} }

// registry has the official names; several are aliases of one function.
var registry = map[string]parser{
	"parse_log_pytest":         byLine(pytest),
	"parse_log_astroid":        byLine(pytest),
	"parse_log_flask":          byLine(pytest),
	"parse_log_marshmallow":    byLine(pytest),
	"parse_log_pvlib":          byLine(pytest),
	"parse_log_pyvista":        byLine(pytest),
	"parse_log_sqlfluff":       byLine(pytest),
	"parse_log_xarray":         byLine(pytest),
	"parse_log_pytest_options": byLine(pytestOptions),
	"parse_log_pydicom":        byLine(pytestOptions),
	"parse_log_requests":       byLine(pytestOptions),
	"parse_log_pylint":         byLine(pytestOptions),
	"parse_log_pytest_v2":      byLine(pytestV2),
	"parse_log_astropy":        byLine(pytestV2),
	"parse_log_scikit":         byLine(pytestV2),
	"parse_log_sphinx":         byLine(pytestV2),
	"parse_log_matplotlib":     byLine(matplotlib),
	"parse_log_seaborn":        byLine(seaborn),
	"parse_log_django":         byLine(newDjango),
	"parse_log_sympy":          byLine(newSympy),

	"parse_log_gotest": byLine(gotest),

	"parse_log_tap": byLine(tap),
}
