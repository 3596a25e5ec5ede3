//go:build long

package leases

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// A store that is served over a socket, so that several processes can use it as
// they would use a database server.

// Asked is a call of the store. Exactly one of the pointers is set.
type Asked struct {
	Actor  string
	Read   []resource.Space
	Write  resource.Space
	All    bool
	Commit *store.Batch
	Get    *resource.URI
	Query  *store.Query
	Wait   *uint64
}

// Answer is what the store answers.
type Answer struct {
	Fault    *fault.Error
	Receipt  store.Receipt
	Resource resource.Resource
	Page     store.Page
	Head     uint64
}

// Server serves a store.
type Server struct{ st store.Store }

// serve serves a store, and the outside, at a socket until the listener closes.
func serve(st store.Store, out *Outside, ln net.Listener) error {
	s := rpc.NewServer()
	if err := errors.Join(s.Register(&Server{st}), s.Register(out)); err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.ServeCodec(jsonrpc.NewServerCodec(c))
		}
	}()
	return nil
}

// Do makes a call. A wait ends after a second, since its caller may be gone.
func (s *Server) Do(in *Asked, out *Answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	sc := store.Scope{Actor: in.Actor, Read: in.Read, Write: in.Write}
	if in.All {
		sc = store.ForNode(in.Write)
	}
	var err error
	switch {
	case in.Commit != nil:
		out.Receipt, err = s.st.Commit(context.Background(), sc, *in.Commit)
	case in.Get != nil:
		out.Resource, err = s.st.Get(ctx, sc, *in.Get)
	case in.Query != nil:
		out.Page, err = s.st.Query(ctx, sc, *in.Query)
	case in.Wait != nil:
		if out.Head, err = s.st.Wait(ctx, *in.Wait); ctx.Err() != nil {
			out.Head, err = *in.Wait, nil
		}
	}
	if err != nil {
		f := *fault.Of(err)
		f.Cause = nil
		out.Fault = &f
	}
	return nil
}

// remote is the store as another process sees it.
type remote struct{ c *rpc.Client }

var _ store.Store = remote{}

func dial(socket string) (remote, error) {
	c, err := jsonrpc.Dial("unix", socket)
	return remote{c}, err
}

func (r remote) do(ctx context.Context, sc store.Scope, in Asked) (Answer, error) {
	in.Actor, in.Read, in.Write, in.All = sc.Actor, sc.Read, sc.Write, sc.All()
	var out Answer
	call := r.c.Go("Server.Do", &in, &out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	if call.Error != nil {
		return out, call.Error
	}
	if out.Fault != nil {
		return out, out.Fault
	}
	return out, nil
}

func (r remote) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	out, err := r.do(ctx, sc, Asked{Commit: &b})
	return out.Receipt, err
}

func (r remote) Get(ctx context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	out, err := r.do(ctx, sc, Asked{Get: &uri})
	return out.Resource, err
}

func (r remote) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	out, err := r.do(ctx, sc, Asked{Query: &q})
	return out.Page, err
}

func (r remote) Wait(ctx context.Context, after uint64) (uint64, error) {
	out, err := r.do(ctx, store.ForNode(resource.System), Asked{Wait: &after})
	return out.Head, err
}

// Log implements store.Store; no worker reads the log.
func (r remote) Log(context.Context, store.Scope, store.LogQuery) (store.LogPage, error) {
	return store.LogPage{}, fault.New(fault.Unsupported, "no_log", "the log is not served")
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
