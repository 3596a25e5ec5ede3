//go:build long

package killed

const places = 250 // at which a test kills
