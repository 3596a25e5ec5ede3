//go:build long

package channeltest

const storm = 10_000 // messages in each direction
