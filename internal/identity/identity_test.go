package identity_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
	_ "steward/test/seed"
)

var never time.Time

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.HasCode(err, code) || !fault.Is(err, kind) {
		t.Fatalf("got %v, want %s %s", err, kind, code)
	}
}

func TestKeyAuthenticatesItsUser(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	key, secret, err := reg.Create(ctx, "local", "ana", "laptop", never)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^sk-steward-[A-Za-z0-9_-]{48}$`).MatchString(secret) {
		t.Errorf("the secret %q has another form", secret)
	}
	if !strings.HasPrefix(secret, key.Hint) || len(key.Hint) > len(identity.Prefix)+6 || key.User != "ana" || key.Name != "laptop" {
		t.Errorf("got %+v", key)
	}
	if user, err := reg.Authenticate(ctx, secret); err != nil || user != "ana" {
		t.Fatalf("got %q, %v", user, err)
	}
	kept := must(m.Store.Get(ctx, store.ForNode(resource.System), resource.Root(identity.TypeKey, key.ID.String())))
	if strings.Contains(string(kept.Body), secret[len(key.Hint):]) {
		t.Errorf("the secret is kept: %s", kept.Body)
	}
}

func TestMistypedSecretIsNotLookedUp(t *testing.T) {
	m := newWatched()
	reg := identity.New(m)
	_, secret, err := reg.Create(t.Context(), "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(secret)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[at] = rapid.SampledFrom([]byte(alphabet)).Draw(t, "c")
		if string(b) == secret {
			return
		}
		if _, err := reg.Authenticate(context.Background(), string(b)); !fault.HasCode(err, "key_malformed") {
			t.Fatalf("%s: %v", b, err)
		}
	})
	for _, s := range []string{"", "x", identity.Prefix, secret + "A", secret[:len(secret)-1], " " + secret, "sk-" + secret, identity.Prefix + base64.RawURLEncoding.EncodeToString(make([]byte, 36))} {
		_, err := reg.Authenticate(t.Context(), s)
		wantCode(t, err, fault.Unauthentic, "key_malformed")
	}
	if m.looked != 0 {
		t.Errorf("%d look-ups", m.looked)
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		reg := identity.New(newWatched())
		_, err := reg.Authenticate(ctx, identity.NewSecret())
		wantCode(t, err, fault.Unauthentic, "key_unknown")

		_, short, err := reg.Create(ctx, "local", "ana", "short", time.Now().Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reg.Authenticate(ctx, short); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of the synctest clock; the entry is still cached
		_, err = reg.Authenticate(ctx, short)
		wantCode(t, err, fault.Unauthentic, "key_expired")
	})
}

func TestRevocationActsAtOnce(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	key, secret, err := reg.Create(ctx, "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	other, otherSecret, err := reg.Create(ctx, "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secret, otherSecret} {
		if _, err := reg.Authenticate(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time changes nothing
		if err := reg.Revoke(ctx, "local", key.ID); err != nil {
			t.Fatal(err)
		}
		_, err = reg.Authenticate(ctx, secret)
		wantCode(t, err, fault.Unauthentic, "key_revoked")
	}
	if _, err := reg.Authenticate(ctx, otherSecret); err != nil {
		t.Errorf("the other key: %v", err)
	}
	if res := must(m.Store.Get(ctx, store.ForNode(resource.System), resource.Root(identity.TypeKey, key.ID.String()))); res.Version != 2 {
		t.Errorf("version %d after two revocations", res.Version)
	}
	wantCode(t, reg.Revoke(ctx, "local", id.New()), fault.NotFound, "key_not_found")
	if err := reg.Revoke(ctx, "local", other.ID); err != nil {
		t.Fatal(err)
	}
}

func TestRevokeRepeatsOnConflict(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	key, secret, err := reg.Create(ctx, "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	m.fail = func(op string) error {
		if op == "commit" && times < 3 {
			times++
			return fault.New(fault.Conflict, "conflict", "overtaken")
		}
		return nil
	}
	if err := reg.Revoke(ctx, "local", key.ID); err != nil || times != 3 {
		t.Fatalf("got %v after %d conflicts", err, times)
	}
	_, err = reg.Authenticate(ctx, secret)
	wantCode(t, err, fault.Unauthentic, "key_revoked")
}

func TestList(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	for _, user := range []string{"ana", "bo", "ana", "ana"} {
		if _, _, err := reg.Create(ctx, "local", user, "k", never); err != nil {
			t.Fatal(err)
		}
	}
	for user, want := range map[string]int{"": 4, "ana": 3, "bo": 1, "eve": 0} {
		keys, err := reg.List(ctx, user)
		if err != nil || len(keys) != want {
			t.Errorf("%q: %d keys, %v; want %d", user, len(keys), err, want)
		}
		for _, k := range keys {
			if k.ID.Zero() || user != "" && k.User != user {
				t.Errorf("%q: got %+v", user, k)
			}
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	reg := identity.New(newWatched())
	for name, c := range map[string]struct {
		user, name string
		expires    time.Time
		code       string
	}{
		"no user":    {"", "", never, "user_invalid"},
		"capital":    {"Ana", "", never, "user_invalid"},
		"slash":      {"a/b", "", never, "user_invalid"},
		"dot first":  {".a", "", never, "user_invalid"},
		"long":       {strings.Repeat("a", 65), "", never, "user_invalid"},
		"long name":  {"ana", strings.Repeat("ä", 101), never, "key_name_invalid"},
		"two lines":  {"ana", "a\nb", never, "key_name_invalid"},
		"not UTF-8":  {"ana", "\xff", never, "key_name_invalid"},
		"expired":    {"ana", "", time.Now().Add(-time.Second), "key_expiry_past"},
		"far future": {"ana", "", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "key_expiry_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, secret, err := reg.Create(t.Context(), "local", c.user, c.name, c.expires)
			wantCode(t, err, fault.Invalid, c.code)
			if secret != "" {
				t.Error("and yet a secret")
			}
		})
	}
	for _, user := range []string{"a", "ana.b_c-d@example.org", "0", strings.Repeat("a", 64)} {
		if err := identity.CheckUser(user); err != nil {
			t.Errorf("%q: %v", user, err)
		}
	}
}

func TestProfile(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	if p, err := reg.Profile(ctx, "ana"); err != nil || !reflect.DeepEqual(p, identity.Profile{}) {
		t.Fatalf("got %+v, %v before any was set", p, err)
	}
	in := identity.Profile{TimeZone: "Europe/Vienna", Location: "Graz, Österreich", Locale: "DE_at", Units: identity.Metric}
	kept, err := reg.SetProfile(ctx, "ana", in)
	if err != nil || kept.Locale != "de-AT" {
		t.Fatalf("got %+v, %v", kept, err)
	}
	if p, err := reg.Profile(ctx, "ana"); err != nil || !reflect.DeepEqual(p, kept) {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := reg.Profile(ctx, "bo"); err != nil || !reflect.DeepEqual(p, identity.Profile{}) {
		t.Errorf("bo has %+v, %v", p, err)
	}
	if r := must(m.Store.Get(ctx, store.ForUser("ana"), resource.Root(identity.TypeUser, "ana"))); r.Space != resource.UserSpace("ana") {
		t.Errorf("kept in %s", r.Space)
	}
	if _, err := reg.SetProfile(ctx, "ana", identity.Profile{}); err != nil {
		t.Fatal(err)
	}
	if p, err := reg.Profile(ctx, "ana"); err != nil || !reflect.DeepEqual(p, identity.Profile{}) {
		t.Errorf("got %+v, %v after it was emptied", p, err)
	}
}

// A persona adds lines and nothing else: the user's own before the one of the settings, an agent's own
// choice before that for all.
func TestPersona(t *testing.T) {
	ctx := t.Context()
	reg := identity.New(newWatched())
	set := identity.Profile{Personas: map[string]identity.Persona{"butler": {Name: "James", Tone: "dry"}, "brief": {Tone: "terse"}}, Persona: map[string]string{identity.AnyAgent: "butler"}}
	lines := func(user, agent string) string {
		p, err := reg.About(ctx, user, set)
		if err != nil {
			t.Fatal(err)
		}
		_, own, _ := strings.Cut(p.PersonaLines(agent), ":\n")
		return own
	}
	choose := func(user, agent, name, code string) {
		t.Helper()
		if _, err := reg.ChoosePersona(ctx, user, set, agent, name); err != nil && !fault.HasCode(err, code) || err == nil && code != "" {
			t.Errorf("%s chooses %s: %v", user, name, err)
		}
	}
	if got := lines(identity.Local, "desk"); got != "- Your name: James\n- Your tone: dry" {
		t.Errorf("%q", got)
	}
	if got := lines("ana", "desk"); got != "" {
		t.Errorf("ana has what the settings say about another: %q", got)
	}
	choose(identity.Local, "desk", "brief", "")
	choose("ana", "desk", "formal", "")
	choose("ana", "desk", "butler", "persona_unknown")
	if _, err := reg.SetProfile(ctx, "bo", identity.Profile{Personas: map[string]identity.Persona{"butler": {Language: "Latin"}}}); err != nil {
		t.Fatal(err)
	}
	choose("bo", identity.AnyAgent, "butler", "")
	choose("bo", "desk", identity.NoPersona, "")
	for who, want := range map[string]string{identity.Local + " desk": "- Your tone: terse", identity.Local + " mail": "- Your name: James\n- Your tone: dry",
		"ana mail": "", "bo desk": "", "bo mail": "- Your language: Latin"} {
		user, agent, _ := strings.Cut(who, " ")
		if got := lines(user, agent); got != want {
			t.Errorf("%s: %q", who, got)
		}
	}
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprint(i)] = "off"
	}
	if _, err := reg.SetProfile(ctx, "bo", identity.Profile{Persona: many}); !fault.HasCode(err, "persona_invalid") {
		t.Error(err)
	}
	if _, err := reg.SetProfile(ctx, "bo", identity.Profile{Personas: map[string]identity.Persona{"off": {}}}); !fault.HasCode(err, "persona_invalid") {
		t.Error(err)
	}
}

func TestProfileRefuses(t *testing.T) {
	reg := identity.New(newWatched())
	for code, p := range map[string]identity.Profile{
		"time_zone_unknown": {TimeZone: "Middle/Earth"},
		"location_invalid":  {Location: "a\x00b"},
		"locale_invalid":    {Locale: "no locale"},
		"units_unknown":     {Units: "cubits"},
		"persona_invalid":   {Personas: map[string]identity.Persona{"x": {Tone: "a\nb"}}},
	} {
		_, err := reg.SetProfile(t.Context(), "ana", p)
		wantCode(t, err, fault.Invalid, code)
	}
	_, err := reg.SetProfile(t.Context(), "ana", identity.Profile{TimeZone: "Local"})
	wantCode(t, err, fault.Invalid, "time_zone_unknown")
	_, err = reg.SetProfile(t.Context(), "a b", identity.Profile{})
	wantCode(t, err, fault.Invalid, "user_invalid")
	_, err = reg.Profile(t.Context(), "../ana")
	wantCode(t, err, fault.Invalid, "user_invalid")
}

func TestStoreErrorsReachTheCaller(t *testing.T) {
	ctx := t.Context()
	m := newWatched()
	reg := identity.New(m)
	key, secret, err := reg.Create(ctx, "local", "ana", "", never)
	if err != nil {
		t.Fatal(err)
	}
	full := fault.New(fault.Unavailable, "disk_full", "no room")
	for op, call := range map[string]func() error{
		"commit create":  func() error { _, _, err := reg.Create(ctx, "local", "ana", "", never); return err },
		"commit revoke":  func() error { return reg.Revoke(ctx, "local", key.ID) },
		"commit profile": func() error { _, err := reg.SetProfile(ctx, "ana", identity.Profile{}); return err },
		"get revoke":     func() error { return reg.Revoke(ctx, "local", key.ID) },
		"get profile":    func() error { _, err := reg.Profile(ctx, "ana"); return err },
		"query list":     func() error { _, err := reg.List(ctx, "ana"); return err },
		"query auth":     func() error { _, err := reg.Authenticate(ctx, secret); return err },
	} {
		m.fail = failing(op, full)
		if err := call(); !errors.Is(err, full) {
			t.Errorf("%s: got %v", op, err)
		}
	}
	m.fail = nil
	put := func(sc store.Scope, uri resource.URI, terms ...store.Term) {
		must(m.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{{URI: uri, Body: []byte("{"), Terms: terms}}}))
	}
	put(store.ForNode(resource.System), resource.Root(identity.TypeKey, key.ID.String()), store.Term{Name: "key_hash", Value: fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))})
	put(store.ForUser("ana"), resource.Root(identity.TypeUser, "ana"))
	for op, call := range map[string]func() error{
		"list":    func() error { _, err := reg.List(ctx, ""); return err },
		"revoke":  func() error { return reg.Revoke(ctx, "local", key.ID) },
		"auth":    func() error { _, err := reg.Authenticate(ctx, secret); return err },
		"profile": func() error { _, err := reg.Profile(ctx, "ana"); return err },
	} {
		if err := call(); !fault.HasCode(err, "store_broken") {
			t.Errorf("%s: got %v", op, err)
		}
	}
}
