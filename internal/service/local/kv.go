// Package local implements the services that store data on this machine: state
// in the tree, and databases in separate files.
package local

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/store"
)

// Bounds of the state service.
const (
	MaxKey   = 160      // bytes
	MaxValue = 64 << 10 // bytes of JSON
	maxList  = 1000
)

// TypeState is the type of a value's resource. It stands below the agent and
// the user, in the user's space:
// cld:agent.Agent.A/agent.Agent.B/identity.User.U/service.State.KEY.
const TypeState = "service.State"

// KV is the state service over the tree. Safe for concurrent use. Error
// codes: state_key_invalid, state_value_invalid, state_value_too_large,
// not_found, and those of the store.
type KV struct{ Store store.Store }

// AgentURI returns the URI of an agent by its path.
func AgentURI(path string) resource.URI {
	var u resource.URI
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			name = "assistant"
		}
		u = u.Child("agent.Agent", name)
	}
	return u
}

func place(c service.Caller) resource.URI {
	return AgentURI(c.Agent).Child("identity.User", url.QueryEscape(c.User))
}

func keyURI(c service.Caller, key string) (resource.URI, error) {
	if key == "" || len(key) > MaxKey {
		return resource.URI{}, fault.New(fault.Invalid, "state_key_invalid", "a key must have 1 to %d bytes; this one has %d", MaxKey, len(key)).
			WithHint("use a shorter name")
	}
	return place(c).Child(TypeState, url.QueryEscape(key)), nil
}

// Get implements service.KV.
func (k KV) Get(ctx context.Context, c service.Caller, key string) (json.RawMessage, error) {
	u, err := keyURI(c, key)
	if err != nil {
		return nil, err
	}
	r, err := k.Store.Get(ctx, store.ForUser(c.User), u)
	return r.Body, missing(err, key)
}

// Put implements service.KV.
func (k KV) Put(ctx context.Context, c service.Caller, key string, value json.RawMessage) error {
	u, err := keyURI(c, key)
	switch {
	case err != nil:
		return err
	case len(value) > MaxValue:
		return fault.New(fault.TooLarge, "state_value_too_large", "the value of %s has %d bytes, more than %d", key, len(value), MaxValue).
			WithHint("store large data in the db service")
	case !json.Valid(value):
		return fault.New(fault.Invalid, "state_value_invalid", "the value of %s is not JSON", key).WithHint("send JSON; put a text in quotes")
	}
	_, err = k.Store.Commit(ctx, scope(c), store.Batch{Changes: []store.Change{{Op: store.Put, URI: u, Body: value}}})
	return err
}

// Delete implements service.KV.
func (k KV) Delete(ctx context.Context, c service.Caller, key string) error {
	u, err := keyURI(c, key)
	if err != nil {
		return err
	}
	_, err = k.Store.Commit(ctx, scope(c), store.Batch{Changes: []store.Change{{Op: store.Delete, URI: u}}})
	return missing(err, key)
}

// List implements service.KV.
func (k KV) List(ctx context.Context, c service.Caller, prefix, after string, limit int) ([]string, error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	out := []string{}
	q := store.Query{Under: place(c), Type: TypeState, NoBody: true, Limit: maxList}
	for it, err := range store.Items(ctx, k.Store, store.ForUser(c.User), q) {
		if err != nil {
			return nil, err
		}
		key, err := url.QueryUnescape(it.URI.ID())
		if err != nil || it.URI.Parent() != q.Under || !strings.HasPrefix(key, prefix) {
			continue
		}
		out = insert(out, key, after, limit)
	}
	return out, nil
}

// insert inserts a key into the sorted keys and keeps only the first limit keys
// above after. It is needed because the tree does not list keys in sorted order.
func insert(keys []string, key, after string, limit int) []string {
	if after != "" && key <= after {
		return keys
	}
	at := len(keys)
	for at > 0 && keys[at-1] > key {
		at--
	}
	if at == limit {
		return keys
	}
	keys = append(keys, "")
	copy(keys[at+1:], keys[at:])
	keys[at] = key
	return keys[:min(len(keys), limit)]
}

func scope(c service.Caller) store.Scope {
	sc := store.ForUser(c.User)
	sc.Actor = "agent:" + c.Agent
	return sc
}

func missing(err error, key string) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "not_found", "there is no value for %s", key).WithHint("set it first")
	}
	return err
}
