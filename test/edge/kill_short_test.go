//go:build !long

package edge_test

// killedAt returns the requests at which TestKilledIndexesAgree kills; empty: at some time after the last turn.
func killedAt() []string { return []string{"embeddings", "facts", ""} }
