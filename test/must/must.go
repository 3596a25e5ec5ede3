// Package must ends a test when a step that it relies on fails.
package must

// Do ends the test at an error.
func Do(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns v. It panics at an error.
func Get[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
