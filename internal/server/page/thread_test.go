package page

import "testing"

// What a person approves is shown exactly: numbers beyond float64, escapes, repeated keys and their order.
func TestArgumentsAreShownExactly(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":12345678901234567890,"x":1.10}`: "{\n  \"id\": 12345678901234567890,\n  \"x\": 1.10\n}",
		`{"b":"<a>","a":"é\u202e","b":2}`:      "{\n  \"b\": \"<a>\",\n  \"a\": \"é\\u202e\",\n  \"b\": 2\n}",
		`{"broken"`:                            `{"broken"`,
	} {
		if got := indented(in); got != want {
			t.Errorf("indented(%s) = %s, want %s", in, got, want)
		}
	}
}
