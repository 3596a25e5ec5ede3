// Package toolpb is the service through which other programs list and call tools. It has the messages, a
// client, and the interface of a server, generated from tool.proto.
package toolpb
