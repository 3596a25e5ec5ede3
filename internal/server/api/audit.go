package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"steward/internal/audit"
	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/server/httpauth"
	"steward/internal/store"
)

// Audit is what the server needs of the audit of the log; audit.Log is one.
type Audit interface {
	Head(ctx context.Context) (store.Head, error)
	Verify(ctx context.Context, anchors ...store.Head) (store.Verdict, error)
	Export(ctx context.Context, who audit.Reader, q audit.Query, w io.Writer) error
}

func (f *server) audits() map[string]serve {
	return map[string]serve{
		"GET /audit/head":                                 f.auditHead,
		"GET /audit/verify?anchor*":                       f.auditVerify,
		"GET /audit/export?user&since&until&under&bodies": f.auditExport,
	}
}

func (f *server) audit() (Audit, error) {
	if f.Audit == nil {
		return nil, fault.New(fault.Unsupported, "audit_unsupported", "the log of this Steward is not audited").
			WithHint("keep its data in SQLite")
	}
	return f.Audit, nil
}

// auditHead answers with the head of the chain, which tells nothing else.
func (f *server) auditHead(w http.ResponseWriter, r *http.Request, _ httpauth.Caller) error {
	a, err := f.audit()
	if err != nil {
		return err
	}
	h, err := a.Head(r.Context())
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, h)
}

// auditVerify looks through the whole log. Only administrators are told what
// a wrong entry is about.
func (f *server) auditVerify(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	a, err := f.audit()
	if err != nil {
		return err
	}
	var anchors []store.Head
	for _, s := range r.URL.Query()["anchor"] {
		h, err := audit.ParseHead(s)
		if err != nil {
			return err
		}
		anchors = append(anchors, h)
	}
	v, err := a.Verify(r.Context(), anchors...)
	if err != nil {
		return err
	}
	if v.Flaw != nil && !c.Admin {
		v.Flaw.URI = resource.URI{}
	}
	return reply(w, http.StatusOK, v)
}

// auditExport answers with JSON lines: for administrators all, for a user his own.
func (f *server) auditExport(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	a, err := f.audit()
	if err != nil {
		return err
	}
	q, err := auditQuery(r.URL.Query())
	if err != nil {
		return err
	}
	out := &lateHeader{w: w}
	err = a.Export(r.Context(), audit.Reader{User: c.User, All: c.Admin}, q, out)
	if err != nil && out.begun { // the end of the export is missing, which verifying it tells
		f.Logger.ErrorContext(r.Context(), "an export of the log broke off", "error", err)
		return nil
	}
	return err
}

func auditQuery(v url.Values) (q audit.Query, err error) {
	q.User = v.Get("user")
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := v.Get(name); s != "" {
			if *to, err = time.Parse(time.RFC3339, s); err != nil {
				return q, fault.New(fault.Invalid, "time_invalid", "%s=%.40q is no time", name, s).WithHint("write it as in RFC 3339: 2006-01-02T15:04:05Z")
			}
		}
	}
	if s := v.Get("under"); s != "" {
		if q.Under, err = resource.Parse(s); err != nil {
			return q, err
		}
	}
	q.Bodies, err = flagOf(v.Get("bodies"), "bodies")
	return q, err
}

// lateHeader says what comes once something does, so that an error before can
// be told as one.
type lateHeader struct {
	w     http.ResponseWriter
	begun bool
}

func (l *lateHeader) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.WriteHeader(http.StatusOK)
	}
	return l.w.Write(p)
}
