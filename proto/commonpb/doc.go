// Package commonpb has the messages that Steward's services share, generated from common.proto.
package commonpb
