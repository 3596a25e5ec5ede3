//go:build long

package edge_test

const killedTimes = 60 // at which the program is killed
