//go:build !long

package channeltest

const storm = 120 // messages in each direction
