// Package vectorpb is a Go client's code for Steward's vector.proto, apart from package pb, since two packages
// have a Filter.
package vectorpb
