package app

import (
	"fmt"
)

// Counted formats a number with its noun.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func Plural(n int, what string) string { return Counted(n, what, what+"s") }
