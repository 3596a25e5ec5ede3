package importexport

// For the tests.
type Facts = facts

var (
	FormatOf = formatOf
	Whole    = whole
	FactsOf  = factsOf
)
