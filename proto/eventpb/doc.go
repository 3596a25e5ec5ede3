// Package eventpb is the service by which other programs publish events and are
// told of them, made of event.proto: the words on the wire, a client, and what
// a server implements.
package eventpb
