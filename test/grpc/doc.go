// Package grpc tests gRPC tools against servers of others.
package grpc
