package cloud

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
)

// google is a double of Google's endpoint for tokens, after
// https://developers.google.com/identity/protocols/oauth2/service-account#httprest and RFC 6749, 6.
type google struct {
	*httptest.Server
	key *rsa.PublicKey

	mu     sync.Mutex
	tokens int
	got    []string // headers of requests for data
	status int
}

func newGoogle(t *testing.T, key *rsa.PublicKey) *google {
	g := &google{key: key}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if r.URL.Path != "/token" {
			g.got = append(g.got, r.Header.Get("Authorization")+"|"+r.Header.Get("X-Goog-User-Project"))
			return
		}
		if g.status != 0 {
			w.WriteHeader(g.status)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`)
			return
		}
		var why error
		switch r.FormValue("grant_type") {
		case "urn:ietf:params:oauth:grant-type:jwt-bearer":
			why = g.verify(r.FormValue("assertion"))
		case "refresh_token":
			if r.FormValue("refresh_token") != "1//refresh" || r.FormValue("client_id") != "client" || r.FormValue("client_secret") != "hush" {
				why = fmt.Errorf("the form is %v", r.Form)
			}
		default:
			why = fmt.Errorf("the grant is %q", r.FormValue("grant_type"))
		}
		if why != nil {
			t.Error(why)
		}
		g.tokens++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"ya29.%d","expires_in":3599,"token_type":"Bearer"}`, g.tokens)
	}))
	t.Cleanup(g.Close)
	return g
}

// verify checks the assertion of a service account.
func (g *google) verify(assertion string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return fmt.Errorf("no JWT: %s", assertion)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	sign, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err == nil {
		err = rsa.VerifyPKCS1v15(g.key, crypto.SHA256, sum[:], sign)
	}
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var c struct{ Iss, Scope, Aud string }
	if err == nil {
		err = json.Unmarshal(claims, &c)
	}
	if err == nil && (c.Iss != "bot@p.iam.gserviceaccount.com" || c.Scope != scope || c.Aud != g.URL+"/token") {
		err = fmt.Errorf("the claims are %s", claims)
	}
	return err
}

func (g *google) ask(t *testing.T, key string, getenv func(string) string) error {
	t.Helper()
	return g.askOver(t, &Google{Base: http.DefaultTransport, Key: key, Getenv: getenv})
}

func (g *google) askOver(t *testing.T, over *Google) error {
	r, err := http.NewRequest(http.MethodGet, g.URL+"/data", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := over.RoundTrip(r)
	if err == nil {
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // it is empty
		resp.Body.Close()              //nolint:errcheck // it was read
	}
	return err
}

func TestSigningInAtGoogle(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	g := newGoogle(t, &key.PublicKey)
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "bot@p.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": g.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		t.Fatal(err)
	}
	over := &Google{Base: http.DefaultTransport, Key: string(account)}
	for range 2 {
		if err := g.askOver(t, over); err != nil {
			t.Fatal(err)
		}
	}
	if want := "Bearer ya29.1|"; g.tokens != 1 || len(g.got) != 2 || g.got[0] != want || g.got[1] != want {
		t.Errorf("%d tokens, %q", g.tokens, g.got)
	}

	home := t.TempDir()
	file := filepath.Join(home, ".config/gcloud/application_default_credentials.json")
	user := `{"type":"authorized_user","client_id":"client","client_secret":"hush","refresh_token":"1//refresh","quota_project_id":"pays","token_uri":"` + g.URL + `/token"}`
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	if err := g.ask(t, "", getenv); err != nil || g.got[2] != "Bearer ya29.2|pays" {
		t.Errorf("%v, %q", err, g.got)
	}
	elsewhere := func(name string) string { return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file}[name] }
	if err := g.ask(t, "", elsewhere); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]string{"{": "not JSON", `{"type":"external_account"}`: "external_account"} {
		if err := g.ask(t, key, getenv); !fault.HasCode(err, "auth_failed") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := g.ask(t, "", func(string) string { return "" }); !fault.HasCode(err, "auth_failed") {
		t.Errorf("without a file: %v", err)
	}
	g.status = 400
	if err := g.ask(t, user, nil); !fault.HasCode(err, "auth_failed") || !strings.Contains(err.Error(), "expired or revoked") {
		t.Errorf("a revoked grant: %v", err)
	}
	g.status = 503
	if err := g.ask(t, user, nil); err == nil || fault.HasCode(err, "auth_failed") {
		t.Errorf("a broken server: %v", err)
	}
}
