package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/server/httpauth"
	"steward/internal/tree"
)

// Resources is what the server needs of the tree; tree.Service is one.
type Resources interface {
	Get(ctx context.Context, by tree.Caller, uri resource.URI) (tree.Resource, error)
	List(ctx context.Context, by tree.Caller, q tree.Query) (tree.Page, error)
	Parents(ctx context.Context, by tree.Caller, uri resource.URI) ([]tree.Resource, error)
	Put(ctx context.Context, by tree.Caller, p tree.Put) (tree.Resource, error)
	Delete(ctx context.Context, by tree.Caller, d tree.Removal) error
	Past
}

// Past is what resources were before.
type Past interface {
	History(ctx context.Context, by tree.Caller, uri resource.URI, after string, limit int) (tree.Page, error)
	Version(ctx context.Context, by tree.Caller, uri resource.URI, version uint64) (tree.Resource, error)
}

// tree are the routes about resources. URIs have slashes, so they stand in the
// query: ?uri=cld:home.Note.shopping
func (f *server) tree() map[string]serve {
	return map[string]serve{
		"GET /resources?type&space&state&under&since&until&bodies&after&limit": f.listResources,
		"GET /resources/item?uri&space&version":                                f.named(getItem),
		"PUT /resources/item?uri&space&version&create&state":                   f.named(putItem),
		"DELETE /resources/item?uri&space&version&erase":                       f.named(deleteItem),
		"GET /resources/parents?uri&space":                                     f.named(parentsOf),
		"GET /resources/history?uri&space&after&limit":                         f.named(historyOf),
	}
}

func (f *server) resources() (Resources, error) {
	if f.Resources == nil {
		return nil, fault.New(fault.Unsupported, "resources_unsupported", "this Steward has no resources")
	}
	return f.Resources, nil
}

// asking is the caller as the tree knows him.
func asking(c httpauth.Caller) tree.Caller {
	return tree.Caller{User: c.User, Attended: c.Attended(), Request: id.New()}
}

// item is the resource that a request names, and who asks for it.
type item struct {
	all   Resources
	by    tree.Caller
	uri   resource.URI
	space resource.Space // that the name is meant in
}

// named serves what is asked of the resource whose URI stands in the query.
func (f *server) named(do func(w http.ResponseWriter, r *http.Request, it item) error) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		all, err := f.resources()
		if err != nil {
			return err
		}
		q := r.URL.Query()
		it := item{all: all, by: asking(c), space: resource.Space(q.Get("space"))}
		text := q.Get("uri")
		if text == "" {
			return fault.New(fault.Invalid, "uri_missing", "no resource is named").WithHint("name one: ?uri=cld:home.Note.shopping")
		}
		if it.uri, err = tree.Parse(c.User, it.space, text); err != nil {
			return err
		}
		return do(w, r, it)
	}
}

func (f *server) listResources(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	all, err := f.resources()
	if err != nil {
		return err
	}
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	v := r.URL.Query()
	q := tree.Query{Type: v.Get("type"), Space: resource.Space(v.Get("space")), State: v.Get("state"),
		After: string(after), Limit: limit}
	if q.Bodies, err = flagOf(v.Get("bodies"), "bodies"); err != nil {
		return err
	}
	if under := v.Get("under"); under != "" {
		if q.Under, err = tree.Parse(c.User, q.Space, under); err != nil {
			return err
		}
	}
	if q.Since, err = moment(v.Get("since")); err != nil {
		return err
	}
	if q.Until, err = moment(v.Get("until")); err != nil {
		return err
	}
	got, err := all.List(r.Context(), asking(c), q)
	if err != nil {
		return err
	}
	return replyPage(w, got)
}

func replyPage(w http.ResponseWriter, p tree.Page) error {
	return reply(w, http.StatusOK, struct {
		Resources []tree.Resource `json:"resources"`
		Next      string          `json:"next,omitzero"`
	}{p.Items, p.Next})
}

// moment reads a time of RFC 3339; zero for none.
func moment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fault.New(fault.Invalid, "time_invalid", "%.60q is no time", s).WithHint("write it like 2030-01-31T08:00:00Z")
	}
	return t, nil
}

func getItem(w http.ResponseWriter, r *http.Request, it item) error {
	if s := r.URL.Query().Get("version"); s != "" {
		version, err := number(s)
		if err != nil {
			return err
		}
		got, err := it.all.Version(r.Context(), it.by, it.uri, version)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, got)
	}
	got, err := it.all.Get(r.Context(), it.by, it.uri)
	if err != nil {
		return err
	}
	if got.Version > 0 {
		w.Header().Set("ETag", etag(got.Version))
		if r.Header.Get("If-None-Match") == etag(got.Version) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return reply(w, http.StatusOK, got)
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

func number(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, fault.New(fault.Invalid, "version_invalid", "%.60q is no version", s).WithHint("versions are numbers from 1 on")
	}
	return n, nil
}

// conditions reads If-Match: "3" and If-None-Match: * (RFC 9110, section 13.1),
// or the same in the query, as ?version=3 and ?create=true.
func conditions(r *http.Request) (version uint64, create bool, err error) {
	if m := r.Header.Get("If-Match"); m != "" {
		text, opened := strings.CutPrefix(m, `"`)
		text, closed := strings.CutSuffix(text, `"`)
		if !opened || !closed {
			return 0, false, fault.New(fault.Invalid, "version_invalid", "%.60q is no version", m).WithHint(`write it as If-Match: "3"`)
		}
		if version, err = number(text); err != nil {
			return 0, false, err
		}
	}
	if v := r.URL.Query().Get("version"); v != "" {
		asked, err := number(v)
		if err != nil {
			return 0, false, err
		}
		if version != 0 && version != asked {
			return 0, false, fault.New(fault.Invalid, "version_invalid", "If-Match says version %d, and the query %d", version, asked).WithHint("say it once")
		}
		version = asked
	}
	if create, err = flagOf(r.URL.Query().Get("create"), "create"); err != nil {
		return 0, false, err
	}
	switch none := r.Header.Get("If-None-Match"); none {
	case "":
	case "*":
		create = true
	default:
		return 0, false, fault.New(fault.Invalid, "version_invalid", "If-None-Match can only be * here, not %.60q", none)
	}
	return version, create, nil
}

// putItem takes the resource's body as the request's. The state stands in
// the query.
func putItem(w http.ResponseWriter, r *http.Request, it item) error {
	version, create, err := conditions(r)
	if err != nil {
		return err
	}
	body, err := httpauth.ReadBody(w, r, tree.MaxBody)
	if err != nil {
		return err
	}
	got, err := it.all.Put(r.Context(), it.by, tree.Put{URI: it.uri, Space: it.space, Body: body, State: r.URL.Query().Get("state"), Version: version, Create: create})
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(got.Version))
	status := http.StatusOK
	if got.Version == 1 {
		status = http.StatusCreated
	}
	return reply(w, status, got)
}

func deleteItem(w http.ResponseWriter, r *http.Request, it item) error {
	version, _, err := conditions(r)
	if err != nil {
		return err
	}
	erase, err := flagOf(r.URL.Query().Get("erase"), "erase")
	if err != nil {
		return err
	}
	if err := it.all.Delete(r.Context(), it.by, tree.Removal{URI: it.uri, Version: version, Erase: erase}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func parentsOf(w http.ResponseWriter, r *http.Request, it item) error {
	list, err := it.all.Parents(r.Context(), it.by, it.uri)
	if err != nil {
		return err
	}
	return replyPage(w, tree.Page{Items: list})
}

func historyOf(w http.ResponseWriter, r *http.Request, it item) error {
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	got, err := it.all.History(r.Context(), it.by, it.uri, string(after), limit)
	if err != nil {
		return err
	}
	return replyPage(w, got)
}
