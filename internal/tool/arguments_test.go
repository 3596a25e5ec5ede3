package tool

import (
	"fmt"
	"strings"
	"testing"
)

func TestArgumentsAreMarked(t *testing.T) {
	schema := `{"type":"object","properties":{"to":{"type":"string"},"body":{"type":"string"}}}`
	for in, want := range map[string]string{
		`{"to":"ann@example.com","body":"hi"}`:               "to 17 []|body 4 []",
		`{"to":"a","bcc":"m@example.com"}`:                   "to 3 []|bcc 15 [not in the tool's schema]",
		`{"to":"ann@ex\u0430mple.com"}`:                      "to 22 [look-alike letters]",
		`{"to":"раура@example.com"}`:                         "to 24 [look-alike letters]",
		`{"to":"Привет, это письмо о сене. Ура"}`:            "to 55 []",
		`{"to":"сор и мусор, see the attachment"}`:           "to 42 []",
		`{"to":"Καλημέρα, the report"}`:                      "to 30 []",
		`{"to":"𝐚dmin"}`:                                     "to 10 [look-alike letters]",
		`{"to":{"deep":["x\u200by"]},"body":"a\r\n\tb"}`:     "to 21 [invisible characters]|body 10 []",
		`{"to":"👩\u200d👧 ❤\ufe0f"}`:                          "to 26 []",
		`{"to\u202e":1}`:                                     "to\u202e 1 [not in the tool's schema invisible characters]",
		`{"body":"` + strings.Repeat("x", 100) + `","to":1}`: "body 102 []|to 1 []",
		`[1]`: "", `{"a":`: "", ``: "",
	} {
		var got []string
		for _, a := range Arguments([]byte(in), []byte(schema)) {
			got = append(got, fmt.Sprintf("%s %d %v", a.Name, a.Size, a.Marks))
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%s: got %s, want %s", in, s, want)
		}
	}
	if a := Arguments([]byte(`{"x":1}`), nil); len(a) != 1 || a[0].Marks != nil {
		t.Errorf("without a schema: %v", a)
	}
}
