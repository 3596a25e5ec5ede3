package messaging

import (
	"context"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// typeState is the type of what an adapter keeps, in a cluster.
const typeState = "messaging.State"

// stateTimeout bounds a reading or a writing of it.
const stateTimeout = 30 * time.Second

// accountState keeps the state of an adapter in the store, where the next node finds it that connects the account.
type accountState struct {
	st store.Store
	at resource.URI

	mu      sync.Mutex
	version uint64 // that was read or written last; zero: there is none
}

// AccountState returns a state that the nodes of a cluster share. A node that saves after another one has saved is
// refused: it does not have the accounts any more. Error code: channel_moved.
func AccountState(st store.Store, account string) channel.State {
	return &accountState{st: st, at: resource.Root(typeAccount, account).ChildID(typeState, id.Derive("state", account))}
}

// Load implements channel.State.
func (s *accountState) Load() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.st.Get(ctx, scopeOf(""), s.at)
	if fault.Is(err, fault.NotFound) {
		s.version = 0
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var data []byte
	s.version = r.Version
	return data, record.Decode(s.at, r.Body, &data)
}

// Save implements channel.State.
func (s *accountState) Save(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.st.Commit(ctx, scopeOf(""), store.Batch{Changes: []store.Change{{URI: s.at, Body: record.Encode(data), If: store.If{Absent: s.version == 0, Version: s.version}}}})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return fault.New(fault.Conflict, "channel_moved", "another node connects this account now: %w", err).WithHint("nothing needs to be done")
	}
	if err == nil {
		s.version = r.Versions[0]
	}
	return err
}
