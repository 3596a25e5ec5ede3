package cli

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cli/command"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/test/davtest"
	"steward/test/mailtest"
)

// An account is connected from another device (RFC 8628), and its token is stored as a secret.
func TestConnectAccount(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "desktop" || r.FormValue("scope") != "mail" {
			t.Errorf("asked for %v", r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"device_code":"d","user_code":"ABCD-EFGH","verification_uri":"https://vendor.example/device","expires_in":60,"interval":1}`)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"access-token-1","token_type":"Bearer","refresh_token":"refresh-1","expires_in":3600}`)
	})
	vendor := httptest.NewServer(mux)
	defer vendor.Close()
	env := user(t)
	home := homeOf(env)
	text := fmt.Sprintf("oauth:\n  vendor: {client_id: desktop, auth_url: '%[1]s/auth', token_url: '%[1]s/token', device_url: '%[1]s/device', scopes: [mail]}\n"+
		"mail:\n  work: {address: ann@example.com, imap: '127.0.0.1:1', oauth: vendor}\n  home: {address: ann@example.com, imap: '127.0.0.1:1'}\n", vendor.URL)
	if err := os.WriteFile(filepath.Join(home, ".config/steward/steward.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(home, "data")
	code, out, errs := in(t, "", env, "accounts", "connect", "work", "--device", "--data", data, "--quiet")
	if code != command.ExitOK || out != "" || !strings.Contains(errs, "open https://vendor.example/device on any device, and enter ABCD-EFGH") || strings.Contains(errs, "token-1") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	if kept, err := secret.NewStore(secret.Folder(data)).Get(oauth.SecretName("work")); err != nil || !strings.Contains(kept, "refresh-1") {
		t.Errorf("%s, %v", kept, err)
	}
	for _, name := range []string{"home", "none"} {
		if code, _, errs := in(t, "", env, "accounts", "connect", name, "--data", data); code == command.ExitOK || !strings.Contains(errs, "mail."+name+".oauth") {
			t.Errorf("%s: %d %q", name, code, errs)
		}
	}
}

// The settings lead to the servers of a mailbox: doctor logs in at both, and says so.
func TestMailboxOfTheSettings(t *testing.T) {
	server := mailtest.Start(t)
	env := user(t)
	home := homeOf(env)
	cert := filepath.Join(home, "ca.pem")
	text := fmt.Sprintf("mail:\n  work: {address: %s, imap: '%s', smtp: '%s', tls: implicit, password: 'store:MAIL'}\n", mailtest.User, server.IMAP, server.SMTP)
	err := errors.Join(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate.Raw}), 0o600),
		os.WriteFile(filepath.Join(home, ".config/steward/steward.yaml"), []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	env = append(env, "SSL_CERT_FILE="+cert) // see package crypto/x509; it is read once in a process
	for password, want := range map[string]string{"wrong password": "rejects the login of the account work", mailtest.Password: "ok    mail       mail of work"} {
		if code, _, errs := in(t, password, env, "secrets", "set", "MAIL"); code != command.ExitOK {
			t.Fatal(errs)
		}
		if out, err := buildProgram(t, env, "doctor").CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// The settings lead to calendars, to-do lists and contacts: doctor logs in, and names them.
func TestCalendarsOfTheSettings(t *testing.T) {
	server := davtest.Start(t)
	env := user(t)
	file := filepath.Join(homeOf(env), ".config/steward/steward.yaml")
	account := fmt.Sprintf("cloud: {url: '%s', user: %s, password: 'store:DAV'}", server.URL, davtest.User)
	if err := os.WriteFile(file, []byte("calendars: {"+account+"}\ncontacts: {"+strings.Replace(account, "',", "/card/',", 1)+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for password, wants := range map[string][]string{"wrong password": {"rejects the login of the account cloud", "calendars.cloud", "contacts.cloud"},
		davtest.Password: {"calendar   cloud/Home, cloud/Work", "todo       cloud/Tasks", "contacts   cloud/People"}} {
		if code, _, errs := in(t, password, env, "secrets", "set", "DAV"); code != command.ExitOK {
			t.Fatal(errs)
		}
		out, err := buildProgram(t, env, "doctor").CombinedOutput()
		for _, want := range wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("lacks %q: %v\n%s", want, err, out)
			}
		}
	}
}
