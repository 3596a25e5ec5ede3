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

// decisionCache caches the decisions of one point under one version of the policies.
type decisionCache struct {
	mu sync.RWMutex
	m  map[string]policy.Decision
}

func (k *decisionCache) get(key []byte) (policy.Decision, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	d, ok := k.m[string(key)]
	return d, ok
}

func (k *decisionCache) put(key []byte, d policy.Decision) {
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
