// Package grpc tests gRPC tools against servers that are not ours.
package grpc
