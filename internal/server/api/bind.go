package api

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/auth"
)

// call is one request with its caller.
type call struct {
	auth.Caller
	w      http.ResponseWriter
	r      *http.Request
	status int // of a successful answer; 0: the route's own
}

// route is one route of the server: what it reads from a request, the function that handles it, and
// what it answers.
type route struct {
	method, path string // the path below Prefix
	in, out      reflect.Type
	fields       []field
	status       int // of a successful answer
	serve        func(c *call) (any, error)
}

// The results of a function that are not encoded as JSON.
type (
	noContent struct{} // nothing to return: 204
	written   struct{} // the function has written the answer itself
	raw       []byte   // JSON, written unchanged
)

// on makes a route from a function. The function's last parameter is a struct whose field tags say
// what is read from a request:
//
//	path   the part of the path with this name
//	query  the parameter with this name, which may be left out
//	what   of an id: the noun for error messages; by default the name
//	range  of a number: the minimum and the maximum
//	body   on a struct: the body, read strictly; "optional": it may be left out
//	size   of a body: its size limit in bytes, if not maxBody
//
// The function is called only after all of it has been read without an error.
func on[In, Out any](pattern string, do func(context.Context, *call, In) (Out, error)) route {
	method, path, _ := strings.Cut(pattern, " ")
	r := route{method: method, path: path, in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), status: http.StatusOK}
	if r.out == reflect.TypeFor[noContent]() {
		r.status = http.StatusNoContent
	}
	r.fields = fieldsOf(r.in)
	r.serve = func(c *call) (any, error) {
		var in In
		if err := bind(c, r.fields, reflect.ValueOf(&in).Elem()); err != nil {
			return nil, err
		}
		return do(c.r.Context(), c, in)
	}
	return r
}

// created makes a route answer with 201 Created.
func created(r route) route {
	r.status = http.StatusCreated
	return r
}

// field describes how one field of a function's parameter is read.
type field struct {
	index       []int
	from        string // "path", "query" or "body"
	name        string
	what        string
	least, most int
	many        bool // it may be given more than once
	size        int64
}

func fieldsOf(in reflect.Type) (list []field) {
	for _, f := range reflect.VisibleFields(in) {
		for _, from := range []string{"path", "query", "body"} {
			name, ok := f.Tag.Lookup(from)
			if !ok {
				continue
			}
			x := field{index: f.Index, from: from, name: name, what: f.Tag.Get("what"), many: f.Type.Kind() == reflect.Slice, size: maxBody}
			if x.what == "" {
				x.what = name
			}
			least, most, _ := strings.Cut(f.Tag.Get("range"), ",")
			x.least, _ = strconv.Atoi(least)
			x.most, _ = strconv.Atoi(most)
			if n, err := strconv.ParseInt(f.Tag.Get("size"), 10, 64); err == nil {
				x.size = n
			}
			list = append(list, x)
		}
	}
	return list
}

// bind reads a request into a function's parameter.
func bind(c *call, fields []field, in reflect.Value) error {
	q, err := query(c.r.URL, fields)
	if err != nil {
		return err
	}
	for _, f := range fields {
		v := in.FieldByIndex(f.index)
		switch f.from {
		case "path":
			err = f.read(c.r.PathValue(f.name), v)
		case "query":
			if f.many {
				v.Set(reflect.ValueOf(q[f.name]))
			} else if s := q.Get(f.name); s != "" {
				err = f.read(s, v)
			}
		case "body":
			var body []byte
			body, err = auth.ReadBody(c.w, c.r, f.size)
			if err == nil && (len(body) > 0 || f.name != "optional") {
				err = auth.Unmarshal(body, v.Addr().Interface())
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// query returns the query parameters of a URL. It refuses a query that would be ignored in part: a
// parameter that the route does not have, or one that is given twice but allowed only once.
func query(u *url.URL, fields []field) (url.Values, error) {
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, "query_invalid", "invalid query string: %w", err).WithHint("percent-encode its values")
	}
	var known, many []string
	for _, f := range fields {
		if f.from == "query" {
			known = append(known, f.name)
		}
		if f.many {
			many = append(many, f.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case !slices.Contains(known, name):
			e := fault.New(fault.Invalid, "parameter_unknown", "unknown parameter %.40q", name).Detail("parameter", name)
			if len(known) == 0 {
				return nil, e.WithHint("remove it: this path takes none")
			}
			return nil, e.WithHint("use %s", strings.Join(known, ", "))
		case len(given[name]) > 1 && !slices.Contains(many, name):
			return nil, fault.New(fault.Invalid, "parameter_repeated", "%s appears %d times", name, len(given[name])).
				WithHint("give it once").Detail("parameter", name)
		}
	}
	return given, nil
}

// read parses a part of the path or a query parameter.
func (f field) read(s string, v reflect.Value) error {
	invalid := func(problem, hint string, args ...any) error {
		return fault.New(fault.Invalid, f.name+"_invalid", "%s=%.60q is %s", f.name, s, problem).WithHint(hint, args...)
	}
	switch to := v.Addr().Interface().(type) {
	case *id.ID:
		x, ok := id.Parse(s)
		if !ok || x.Zero() {
			e := fault.New(fault.NotFound, f.what+"_not_found", "there is no %s %.80s", f.what, s)
			if f.name == "id" {
				e = e.WithHint("GET %s/%ss lists them", Prefix, f.what)
			}
			return e
		}
		*to = x
	case *time.Time:
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return fault.New(fault.Invalid, "time_invalid", "%s=%.60q is not a time", f.name, s).WithHint("use RFC 3339, such as 2006-01-02T15:04:05Z")
		}
		*to = t
	case *bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return invalid("not a boolean", "use true or false")
		}
		*to = b
	case *int:
		n, err := strconv.Atoi(s)
		if err != nil || n < f.least || n > f.most {
			return invalid("out of range", "use a number from %d to %d", f.least, f.most)
		}
		*to = n
	case *float64:
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= float64(f.least) && x <= float64(f.most)) {
			return invalid("out of range", "use a number from %d to %d", f.least, f.most)
		}
		*to = x
	case *message.Labels:
		l, err := message.ParseLabels(s)
		if err != nil {
			return err
		}
		*to = l
	case *uint64:
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil || n == 0 {
			return invalid("not a "+f.name, "%ss are numbers from 1 on", f.name)
		}
		*to = n
	default: // text of some type
		v.SetString(s)
	}
	return nil
}

// handle returns the handler of a route.
func (f *server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, r: r, status: rt.status}
		var out any
		var err error
		if c.Caller, err = auth.From(r.Context()); err == nil {
			out, err = rt.serve(c)
		}
		if err == nil {
			err = c.reply(out)
		}
		switch {
		case err == nil:
		case f.Inside:
			e := fault.Of(err)
			auth.Reply(w, auth.StatusOf(e), auth.ErrorBody(e))
		default:
			auth.WriteError(w, r, f.Logger, err)
		}
	})
}

// reply writes a function's result.
func (c *call) reply(out any) error {
	if c.status == http.StatusNotModified {
		out = noContent{}
	}
	switch v := out.(type) {
	case written:
	case noContent:
		c.w.WriteHeader(c.status)
	case raw:
		auth.Reply(c.w, c.status, v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return fault.New(fault.Internal, "answer_unwritable", "cannot write the answer: %w", err)
		}
		auth.Reply(c.w, c.status, append(b, '\n'))
	}
	return nil
}

// lateHeader delays the head of an answer until its first byte, so that an error before it can still be
// reported with its own status.
type lateHeader struct {
	w       http.ResponseWriter
	mime    string
	started bool
}

// Write implements io.Writer.
func (l *lateHeader) Write(p []byte) (int, error) {
	if !l.started {
		l.started = true
		h := l.w.Header()
		h.Set("Content-Type", l.mime)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		l.w.WriteHeader(http.StatusOK)
	}
	return l.w.Write(p)
}

// stream answers with what write writes. If write fails midway the connection is cut, so that the
// client does not take a part for the whole.
func (f *server) stream(c *call, mime string, write func(*lateHeader) error) (written, error) {
	out := &lateHeader{w: c.w, mime: mime}
	err := write(out)
	if err != nil && out.started {
		auth.Log(c.r, f.Logger, err)
		panic(http.ErrAbortHandler)
	}
	return written{}, err
}
