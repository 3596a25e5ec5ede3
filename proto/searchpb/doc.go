// Package searchpb is the service through which other programs search messages. It has the messages, a
// client, and the interface of a server, generated from search.proto.
package searchpb
