//go:build long

package edge_test

// killedAt returns the requests at which TestKilledIndexesAgree kills; empty: at some time after the last turn.
func killedAt() (out []string) {
	for range 6 {
		out = append(out, "embeddings", "facts", "", "", "")
	}
	return out
}
