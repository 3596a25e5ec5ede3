// Package workpb is a Go client's code for plan.Plan and assistant.Assistant, like test/rpc/pb for the other
// services.
package workpb
