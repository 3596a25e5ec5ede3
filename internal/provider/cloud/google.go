// Package cloud signs in at Google, which offers models of its own and of others on Vertex AI.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"steward/internal/fault"
	"steward/internal/strict"
)

// Google's endpoint for tokens, and what a token for Vertex AI must permit.
const (
	tokenURL = "https://oauth2.googleapis.com/token"
	scope    = "https://www.googleapis.com/auth/cloud-platform"
)

// tokenFor limits a request for a token.
const tokenFor = 30 * time.Second

const maxKeyFile = 1 << 20 // bytes

// Google is a transport that signs in at Google. It is safe for concurrent use.
type Google struct {
	Base   http.RoundTripper
	Key    string              // the JSON of a service account or of gcloud; empty: the default file is read
	Getenv func(string) string // for the place of the default file

	once   sync.Once
	source oauth2.TokenSource
	bills  string // the project that pays for a user's requests
	err    error
}

// RoundTrip implements http.RoundTripper.
func (g *Google) RoundTrip(r *http.Request) (*http.Response, error) {
	g.once.Do(func() { g.err = g.open() })
	if g.err != nil {
		return nil, g.err
	}
	token, err := g.source.Token()
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500:
		var told struct {
			Code string `json:"error"`
			Why  string `json:"error_description"`
		}
		json.Unmarshal(refused.Body, &told) //nolint:errcheck // what is missing is not said
		return nil, notSigned("Google does not sign you in: %.60q, %.300q", told.Code, told.Why)
	case err != nil:
		return nil, fmt.Errorf("the sign-in at Google fails: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token.AccessToken)
	if g.bills != "" {
		r.Header.Set("X-Goog-User-Project", g.bills)
	}
	return g.Base.RoundTrip(r)
}

func notSigned(format string, args ...any) error {
	return fault.New(fault.Unauthentic, "auth_failed", format, args...).
		WithHint("run gcloud auth application-default login, or name the file of a service account in key_file")
}

// open reads the credentials.
//
// Source: https://cloud.google.com/docs/authentication/application-default-credentials.
func (g *Google) open() error {
	text := []byte(g.Key)
	if g.Key == "" {
		file := g.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
		if file == "" {
			file = filepath.Join(g.Getenv("HOME"), ".config/gcloud/application_default_credentials.json")
		}
		var err error
		if text, err = strict.ReadText(file, maxKeyFile); err != nil {
			return notSigned("the credentials for Google cannot be read: %w", err)
		}
	}
	var in struct {
		Type         string `json:"type"`
		Email        string `json:"client_email"`
		PrivateKey   string `json:"private_key"`
		PrivateKeyID string `json:"private_key_id"`
		TokenURI     string `json:"token_uri"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
		Project      string `json:"quota_project_id"`
	}
	if json.Unmarshal(text, &in) != nil {
		return notSigned("the credentials for Google are not JSON")
	}
	if in.TokenURI == "" {
		in.TokenURI = tokenURL
	}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: g.Base, Timeout: tokenFor})
	switch in.Type {
	case "service_account":
		g.source = (&jwt.Config{Email: in.Email, PrivateKey: []byte(in.PrivateKey), PrivateKeyID: in.PrivateKeyID, Scopes: []string{scope}, TokenURL: in.TokenURI}).TokenSource(ctx)
	case "authorized_user":
		c := oauth2.Config{ClientID: in.ClientID, ClientSecret: in.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: in.TokenURI, AuthStyle: oauth2.AuthStyleInParams}}
		g.source, g.bills = c.TokenSource(ctx, &oauth2.Token{RefreshToken: in.RefreshToken}), in.Project
	default:
		return notSigned("credentials of the type %.40q are not known to Steward", in.Type)
	}
	return nil
}
