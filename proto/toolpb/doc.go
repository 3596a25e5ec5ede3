// Package toolpb is the service by which other programs list and call tools, made of
// tool.proto: the words on the wire, a client, and what a server implements.
package toolpb
