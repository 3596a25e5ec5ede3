package vector

// Stored returns a vector as the file holds it.
func Stored(v []float32) []byte {
	q := quantise(v)
	return unsigned(q.num)
}
