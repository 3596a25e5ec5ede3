//go:build !long

package edge_test

const killedTimes = 3 // at which the program is killed
