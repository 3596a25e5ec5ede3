//go:build !long

package provider_test

// cutEvery is how many bytes lie between the places at which streams are cut.
const cutEvery = 7
