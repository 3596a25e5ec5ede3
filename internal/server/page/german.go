package page

// german returns the German of each English text.
func german() map[string]string {
	return map[string]string{}
}
