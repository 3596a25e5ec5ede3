//go:build linux && !long

package postgres

const long = false // tests take their long form
