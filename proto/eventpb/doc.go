// Package eventpb is the service through which other programs publish events and subscribe to them. It
// has the messages, a client, and the interface of a server, generated from event.proto.
package eventpb
