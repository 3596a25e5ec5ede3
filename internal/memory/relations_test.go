package memory

import (
	"testing"

	"steward/internal/message"
	"steward/internal/record"
)

func TestFactsStateRelationsOfFewForms(t *testing.T) {
	for text, want := range map[string]Relation{
		"Ann lives in Berlin since 2020.":             {"Ann", "lives in", "Berlin"},
		"Ann works now for the Acme Corporation, too": {},
		"Ann works for the Acme Corporation, too":     {"Ann", "works at", "Acme Corporation"},
		"I moved to New York":                         {"user", "lives in", "New York"},
		"I'm married to Bob":                          {},
		"I am married to Bob Miller and happy":        {"user", "is married to", "Bob Miller"},
		"Anna wohnt in der Schweiz":                   {"Anna", "lives in", "Schweiz"},
		"My dog is called Rex":                        {"user", "dog", "Rex"},
		"My boss is Carla Smith":                      {"user", "boss", "Carla Smith"},
		"Ann's sister is Eva":                         {"Ann", "sister", "Eva"},
		"Mein Chef heißt Karl":                        {"user", "chef", "Karl"},
		"Ann is my sister":                            {"user", "sister", "Ann"},
		"Eva is Ann's sister":                         {"Ann", "sister", "Eva"},
		"Ann does not live in Berlin":                 {},
		"Ann wants to live in Rome":                   {},
		"Ann used to live in Rome":                    {},
		"Does Ann live in Rome?":                      {},
		"My favourite colour is blue":                 {},
		"My car is very Old":                          {},
		"We told Bob that Ann lives in Rome":          {},
		"I like tea":                                  {},
	} {
		subject := subjectOf(text)
		if want.Subject == "Ann" && text[0] == 'E' {
			subject = "Ann" // as a model names it
		}
		got, ok := RelationOf(&record.Fact{Subject: subject, Text: text, Type: record.FactPlain})
		if ok != (want != Relation{}) || got != want {
			t.Errorf("%q about %s: got %v, want %v", text, subject, got, want)
		}
	}
	if r, ok := RelationOf(&record.Fact{Subject: "Ann", Text: "Ann lives in Berlin", Labels: message.Untrusted}); ok {
		t.Errorf("a quotation of others states %v", r)
	}
}
