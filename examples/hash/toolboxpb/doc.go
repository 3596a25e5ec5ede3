// Package toolboxpb is the example service of hash.proto: its words on the wire,
// a client, and what a server implements.
package toolboxpb
