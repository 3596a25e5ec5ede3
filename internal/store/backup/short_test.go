//go:build !long

package backup

// some returns a few of the places at which a test interrupts, the last ones among them; all of them in the long form.
func some[T any](places []T) (out []T) {
	for i := len(places) - 1; i >= 0; i -= 4 {
		out = append(out, places[i])
	}
	return out
}
