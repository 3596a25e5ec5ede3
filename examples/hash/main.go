// Command hash serves toolbox.HashTools over gRPC, as an example of a service
// of one's own whose methods become Steward's tools. It describes itself by
// reflection, so Steward needs no .proto file of it.
//
//	go run ./examples/hash --listen 127.0.0.1:0
package main

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"steward/examples/hash/toolboxpb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7421", "HOST:PORT to listen on; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hash:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, and says where.
func serve(ctx context.Context, listen string, out io.Writer) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	toolboxpb.RegisterHashToolsServer(s, hashTools{})
	reflection.Register(s)
	defer context.AfterFunc(ctx, s.GracefulStop)()
	if _, err := fmt.Fprintf(out, "toolbox.HashTools at %s\n", ln.Addr()); err != nil {
		return err
	}
	return s.Serve(ln)
}

type hashTools struct {
	toolboxpb.UnimplementedHashToolsServer
}

func (hashTools) Sha256Hash(_ context.Context, in *toolboxpb.HashRequest) (*toolboxpb.HashResponse, error) {
	sum := sha256.Sum256([]byte(in.GetInput()))
	return &toolboxpb.HashResponse{Hash: hex.EncodeToString(sum[:]), Algorithm: "SHA-256"}, nil
}

func (hashTools) Md5Hash(_ context.Context, in *toolboxpb.HashRequest) (*toolboxpb.HashResponse, error) {
	sum := md5.Sum([]byte(in.GetInput()))
	return &toolboxpb.HashResponse{Hash: hex.EncodeToString(sum[:]), Algorithm: "MD5"}, nil
}
