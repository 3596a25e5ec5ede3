package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"steward/examples/hash/toolboxpb"
)

func TestHashes(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	r, w := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, "127.0.0.1:0", w) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at := line[strings.LastIndex(line, " ")+1 : len(line)-1]
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := toolboxpb.NewHashToolsClient(conn)
	in := &toolboxpb.HashRequest{Input: "abc"} // the vectors of RFC 1321 and FIPS 180-4
	sha, err := c.Sha256Hash(ctx, in)
	if err != nil || sha.Hash != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || sha.Algorithm != "SHA-256" {
		t.Errorf("%v, %v", sha, err)
	}
	md5, err := c.Md5Hash(ctx, in)
	if err != nil || md5.Hash != "900150983cd24fb0d6963f7d28e17f72" || md5.Algorithm != "MD5" {
		t.Errorf("%v, %v", md5, err)
	}
	if err := serve(ctx, at, io.Discard); err == nil {
		t.Error("two servers at one address")
	}
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
