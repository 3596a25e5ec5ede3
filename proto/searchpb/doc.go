// Package searchpb is the service by which other programs search in what was said, made of
// search.proto: the words on the wire, a client, and what a server implements.
package searchpb
