package main

import (
	"fmt"
)

// counted formats a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func plural(n int, what string) string { return counted(n, what, what+"s") }
