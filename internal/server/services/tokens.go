package services

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/service"
)

// Grant is what a token gives access to: services of one agent for one user, for a short time.
type Grant struct {
	service.Caller
	Services []service.Name
	Model    string // of the llm service
	Expires  time.Time
}

// may returns an error if a service is not granted.
func (g Grant) may(n service.Name) error {
	if slices.Contains(g.Services, n) {
		return nil
	}
	return fault.New(fault.Denied, "service_not_offered", "the service %s is not offered to programs of the agent %s", n, g.Agent).
		WithHint("set offering: serve for it in agent.yaml, and approve the agent again")
}

// Tokens are the short-lived keys of programs. They are in memory only, because a program does not
// outlive the Steward that started it. Tokens is safe for concurrent use.
type Tokens struct {
	mu     sync.Mutex
	grants map[[32]byte]Grant
}

// tokenMark begins each token, so that leaked ones are recognised.
const tokenMark = "sts_"

// Mint makes a token. revoke invalidates it before it expires.
func (t *Tokens) Mint(g Grant) (token string, revoke func()) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	token = tokenMark + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.grants == nil {
		t.grants = map[[32]byte]Grant{}
	}
	t.grants[sum] = g
	return token, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.grants, sum)
	}
}

// Find returns the grant of a token, or Unauthentic (service_token_invalid).
func (t *Tokens) Find(token string, now time.Time) (Grant, error) {
	sum := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.grants[sum]
	if ok && now.After(g.Expires) {
		delete(t.grants, sum)
		ok = false
	}
	if !ok {
		return Grant{}, fault.New(fault.Unauthentic, "service_token_invalid", "the token is unknown or has expired").
			WithHint("use the STEWARD_TOKEN of this call; it expires with the call")
	}
	return g, nil
}
