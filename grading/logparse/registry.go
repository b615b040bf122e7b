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
	"parse_log_cargo":  byLine(cargo),

	"parse_log_redis":            byLine(redis),
	"parse_log_jq":               byLine(jq),
	"parse_log_doctest":          byText(doctest),
	"parse_log_micropython_test": byLine(micropython),
	"parse_log_googletest":       byLine(googletest),

	"parse_log_maven":         byLine(newMaven),
	"parse_log_ant":           byLine(ant),
	"parse_log_gradle_custom": byLine(gradle),

	"parse_log_phpunit": byLine(phpunit),

	"parse_log_minitest":               byLine(minitest),
	"parse_log_cucumber":               byLine(cucumber),
	"parse_log_ruby_unit":              byLine(rubyUnit),
	"parse_log_rspec_transformed_json": byLine(rspec),
	"parse_log_jekyll":                 byLine(jekyll),

	"parse_log_calypso":      byLine(newCalypso),
	"parse_log_bpmn_js":      byText(bpmnJS),
	"parse_log_carbon":       byLine(carbon),
	"parse_log_eslint":       byText(eslint),
	"parse_log_grommet":      byLine(grommet),
	"parse_log_highlightjs":  byLine(highlightJS),
	"parse_log_lighthouse":   byText(lighthouse),
	"parse_log_next":         byText(next),
	"parse_log_openlayers":   byText(openLayers),
	"parse_log_prismjs":      byText(prismJS),
	"parse_log_quarto_cli":   byLine(newQuarto),
	"parse_log_chart_js":     byLine(chartJS),
	"parse_log_marked":       byLine(marked),
	"parse_log_p5js":         byText(p5js),
	"parse_log_react_pdf":    byLine(carbon),
	"parse_log_jest":         byLine(jest),
	"parse_log_jest_json":    byLine(jestJSON),
	"parse_log_vitest":       byLine(vitest),
	"parse_log_karma":        byLine(newKarma),
	"parse_log_tap":          byLine(tap),
	"parse_log_immutable_js": byLine(immutable),

	// Three that 5.x no longer has; classic repositories still need them.
	"parse_log_emotion": byLine(emotion),
	"parse_log_cypress": byText(cypress),
	"parse_plotly_js":   byLine(plotly),
}
