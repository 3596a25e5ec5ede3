// Package commonpb is what Steward's services share, made of
// common.proto: the words on the wire.
package commonpb
