package page

import (
	"encoding/json"
	"net/http"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/server/auth"
)

// SignInLink returns the address at which a link's secret signs a browser in.
func SignInLink(url, secret string) string { return url + "/in#" + secret }

// signInPage explains how to sign in, and does so if the address has a secret.
func (s *server) signInPage(w http.ResponseWriter, r *http.Request) {
	v := &visit{server: s, r: r, lang: languageOf(r)}
	status := http.StatusOK
	if r.URL.Path != "/in" {
		status = http.StatusUnauthorized
	}
	s.write(w, r, status, v.bare(v.t("Sign in"), Main(Class("center"), ID("sign-in"),
		Img(Src(s.at("icon.svg")), Alt(""), Width("72"), Height("72")),
		H1(g.Text("Steward")),
		P(ID("sign-in-text"), g.Text(v.t("Open the link that Steward has printed where it was started, or that you were sent."))),
		P(Class("quiet"), g.Text(v.t("A new link is printed by the command:")), g.Text(" "), Code(g.Text("steward link"))),
		P(ID("sign-in-error"), Class("error"), Role("alert")),
		Button(ID("sign-in-go"), Class("primary"), Hidden(""), g.Text(v.t("Sign in"))))))
}

func (s *server) signIn(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Link string
		Sure bool
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&in); err != nil {
		s.fail(w, r, fault.New(fault.Invalid, "json_invalid", "the request is not JSON: %w", err))
		return
	}
	if c, err := auth.From(r.Context()); err == nil && !in.Sure {
		// A link that somebody else has made and sent would have this person write into the account of somebody else.
		user, err := s.People.LinkUser(r.Context(), in.Link)
		if err == nil && user != c.User {
			v := &visit{server: s, r: r, lang: languageOf(r)}
			err = fault.New(fault.Conflict, "signed_in_otherwise", "%s", v.t("You are signed in as {name}, and this link is for {other}.", c.User, user))
		}
		if err != nil {
			s.fail(w, r, s.noLink(r, err))
			return
		}
	}
	_, secret, err := s.People.SignIn(r.Context(), in.Link, r.UserAgent())
	if err != nil {
		s.fail(w, r, s.noLink(r, err))
		return
	}
	if c, err := r.Cookie(auth.CookieName(r)); err == nil { // nobody could end the session that it replaces
		if old, err := s.People.AuthenticateSession(r.Context(), c.Value); err == nil {
			if err := s.People.EndSession(r.Context(), old.User, old.User, old.ID); err != nil {
				s.Logger.Warn("a session that was replaced has not ended", "error", err)
			}
		}
	}
	s.setCookie(w, r, secret, identity.SessionIdle)
	auth.Reply(w, http.StatusOK, []byte(`{"go":"/"}`))
}

// noLink says in the reader's language why a link does not sign in, and who gives another one.
func (s *server) noLink(r *http.Request, err error) error {
	v := &visit{server: s, r: r, lang: languageOf(r)}
	said := ""
	switch {
	case fault.HasCode(err, "link_unknown"):
		said = v.t("This link was used already, or never existed. A link works once.")
	case fault.HasCode(err, "link_expired"):
		said = v.t("This link has expired.")
	default:
		return err
	}
	return fault.New(fault.Unauthentic, fault.Of(err).Code, "%s", said).WithHint("%s", v.t("Ask for another one where you got it."))
}

func (s *server) setCookie(w http.ResponseWriter, r *http.Request, secret string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{Name: auth.CookieName(r), Value: secret, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true,
		Secure: auth.Secure(r), SameSite: http.SameSiteStrictMode})
}
