//go:build !long

package killed

const places = 12 // at which a test kills
