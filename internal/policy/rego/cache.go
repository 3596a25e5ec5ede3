package rego

import (
	"sync"

	"steward/internal/policy"
)

// Limits of the cache of one point's decisions.
const (
	maxKnown = 4096
	maxKey   = 1 << 10 // bytes; longer questions are not cached
)

// memory caches the decisions of one point under one version of the policies.
type memory struct {
	mu sync.RWMutex
	m  map[string]policy.Decision
}

func (k *memory) get(key []byte) (policy.Decision, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	d, ok := k.m[string(key)]
	return d, ok
}

func (k *memory) put(key []byte, d policy.Decision) {
	if len(key) > maxKey {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil || len(k.m) >= maxKnown {
		k.m = map[string]policy.Decision{}
	}
	k.m[string(key)] = d
}
