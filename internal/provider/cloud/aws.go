// Package cloud signs requests to the clouds that offer models of others, AWS and Google, and reads
// the framing of AWS's streams.
package cloud

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// Keys are an account's access keys at AWS.
type Keys struct {
	ID, Secret, Session string
}

// AWS is a transport that signs requests to Bedrock, and turns its streams into server-sent events.
type AWS struct {
	Base   http.RoundTripper
	Region string
	Token  string               // a Bedrock API key, which stands in for a signature
	Keys   func() (Keys, error) // called for each request, so that keys may change
	Now    func() time.Time     // nil: time.Now
}

// RoundTrip implements http.RoundTripper.
func (a AWS) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.RawPath = wirePath(r.URL)
	if a.Token != "" {
		r.Header.Set("Authorization", "Bearer "+a.Token)
	} else if err := a.sign(r); err != nil {
		return nil, err
	}
	resp, err := a.Base.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "application/vnd.amazon.eventstream" {
		resp.Body = &events{body: resp.Body}
		resp.Header.Set("Content-Type", "text/event-stream")
	}
	return resp, err
}

// wirePath returns the path as it is sent: a model's id, which may be an ARN with slashes, is one
// segment.
func wirePath(u *url.URL) string {
	rest, ok := strings.CutPrefix(u.Path, "/model/")
	if at := strings.LastIndexByte(rest, '/'); ok && at > 0 {
		return "/model/" + escape(rest[:at], false) + rest[at:]
	}
	return u.EscapedPath()
}

func (a AWS) sign(r *http.Request) error {
	keys, err := a.Keys()
	if err != nil {
		return err
	}
	var body []byte
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
		r.Body.Close() //nolint:errcheck // it was read
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	signature(r, r.URL.EscapedPath(), body, keys, a.Region, "bedrock", now())
	return nil
}

// signature adds the header fields of Signature Version 4. path is as it is sent; it is escaped once
// more, as all services but S3 require.
//
// Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
func signature(r *http.Request, path string, body []byte, keys Keys, region, service string, at time.Time) {
	stamp := at.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/" + region + "/" + service + "/aws4_request"
	r.Header.Set("X-Amz-Date", stamp)
	if keys.Session != "" {
		r.Header.Set("X-Amz-Security-Token", keys.Session)
	}
	fields := map[string]string{"host": cmp.Or(r.Host, r.URL.Host)}
	for name, values := range r.Header {
		if name == "Authorization" || name == "User-Agent" {
			continue
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.FieldsFunc(v, func(r rune) bool { return r == ' ' }), " ")
		}
		fields[strings.ToLower(name)] = strings.Join(trimmed, ",")
	}
	names := slices.Sorted(maps.Keys(fields))
	var b strings.Builder
	b.WriteString(r.Method + "\n" + escape(path, true) + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range names {
		b.WriteString(name + ":" + fields[name] + "\n")
	}
	signed := strings.Join(names, ";")
	b.WriteString("\n" + signed + "\n" + hash(body))
	key := []byte("AWS4" + keys.Secret)
	for _, part := range []string{stamp[:8], region, service, "aws4_request"} {
		key = mac(key, part)
	}
	sum := mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hash([]byte(b.String())))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+keys.ID+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(sum))
}

func hash(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, v := range values {
			pairs = append(pairs, escape(name, false)+"\x00"+escape(v, false)) // sorts before any other byte
		}
	}
	slices.Sort(pairs)
	return strings.ReplaceAll(strings.Join(pairs, "&"), "\x00", "=")
}

// escape escapes all bytes but the unreserved characters of RFC 3986 and, in a path, slashes.
func escape(s string, path bool) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0, path && c == '/':
			b.WriteByte(c)
		default:
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

const largestKeyFile = 1 << 20 // bytes

// KeysOf returns the keys of the environment, or those of a profile in AWS's shared credentials or
// config file. Keys that must be fetched, for a role or by single sign-on, are refused.
func KeysOf(getenv func(string) string) (Keys, error) {
	k := Keys{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	if k.ID != "" && k.Secret != "" {
		return k, nil
	}
	profile := cmp.Or(getenv("AWS_PROFILE"), "default")
	home := filepath.Join(getenv("HOME"), ".aws")
	for _, f := range []struct{ path, section string }{
		{cmp.Or(getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, "credentials")), profile},
		{cmp.Or(getenv("AWS_CONFIG_FILE"), filepath.Join(home, "config")), strings.TrimPrefix("profile "+profile, map[bool]string{true: "profile "}[profile == "default"])},
	} {
		values, err := section(f.path, f.section)
		if err != nil {
			return Keys{}, noKeys("%s cannot be read: %w", f.path, err)
		}
		k = Keys{values["aws_access_key_id"], values["aws_secret_access_key"], values["aws_session_token"]}
		if k.ID != "" && k.Secret != "" {
			return k, nil
		}
		for _, other := range []string{"role_arn", "sso_session", "sso_start_url", "credential_process"} {
			if values[other] != "" {
				return Keys{}, noKeys("the profile %s has its keys by %s, which Steward does not do", profile, other)
			}
		}
	}
	return Keys{}, noKeys("there are no keys in the environment and none of the profile %s", profile)
}

func noKeys(format string, args ...any) error {
	return fault.New(fault.Unauthentic, "auth_failed", "AWS: "+format, args...).
		WithHint("set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key, or put keys into the environment: aws configure export-credentials --format env")
}

// section reads a section of an INI file. A file that does not exist has none.
func section(path, name string) (map[string]string, error) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, error(fs.ErrInvalid))
	}
	text, err := io.ReadAll(io.LimitReader(f, largestKeyFile))
	values, inside := map[string]string{}, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "["); ok {
			inside = strings.TrimSpace(strings.TrimSuffix(head, "]")) == name
		} else if key, value, ok := strings.Cut(line, "="); ok && inside && !strings.HasPrefix(line, "#") {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return values, err
}
