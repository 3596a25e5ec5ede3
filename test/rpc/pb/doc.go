// Package pb is a Go client's code for Steward's .proto files, as anybody can generate it. The tests call the
// server with it, which has no generated code itself.
package pb
