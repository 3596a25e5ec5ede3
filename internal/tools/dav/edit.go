package dav

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Edit is a change of one object.
type Edit struct {
	Object        // its place and ETag (none: it is new), and its text before
	After  string // its new text; empty: it is removed
	Reply  string `json:"Told"` // the reply about the change
	What   string // what the object is called
}

// Book makes edits for one user.
type Book struct {
	Accounts Accounts
	User     string
	Media    string // text/calendar or text/vcard
	Notes    string // the place beside which edits are noted; see local.SaveNote
}

func (b Book) client(ctx context.Context, account string) (*client, error) {
	own, err := b.Accounts.of(ctx, b.User)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(own, func(a Account) bool { return a.Name == account })
	if i < 0 {
		return nil, tool.NotDone(fault.New(fault.NotFound, "dav_account_unknown", "the account %.100q is no longer in the settings", account))
	}
	return open(own[i], b.Accounts.Transport)
}

// Do makes an edit. Error codes: changed_since and those of the server.
func (b Book) Do(ctx context.Context, key string, e Edit) (string, error) {
	if e.Text != "" && e.ETag == "" {
		return "", tool.NotDone(fault.New(fault.Unsupported, "dav_etag_missing", "the server sends no version (ETag) of %s, so a change could overwrite another one", e.What))
	}
	if err := local.SaveNote(b.Notes, key, e); err != nil {
		return "", tool.NotDone(err)
	}
	c, err := b.client(ctx, e.Account)
	if err != nil {
		return "", tool.NotDone(err)
	}
	return e.Reply, b.write(ctx, c, e.Object, e.After)
}

// write makes an object what it shall be, if it has its ETag still or, without one, if there is none. An
// empty text removes it. Error code: changed_since.
func (b Book) write(ctx context.Context, c *client, was Object, text string) error {
	at, err := c.resolve(c.root, was.URL)
	if err != nil {
		return tool.NotDone(err)
	}
	method, header := http.MethodPut, map[string]string{"Content-Type": b.Media + "; charset=utf-8", "If-Match": was.ETag}
	switch {
	case text == "":
		method, header = http.MethodDelete, map[string]string{"If-Match": was.ETag, "Schedule-Reply": "F"} // RFC 6638, section 8.1: removing an invitation sends no reply
	case was.ETag == "":
		header = map[string]string{"Content-Type": b.Media + "; charset=utf-8", "If-None-Match": "*"}
	}
	_, err = c.do(ctx, method, at, header, text)
	return err
}

// load returns the edit under a key, and the object as it is now.
func (b Book) load(ctx context.Context, key string) (e Edit, now Object, c *client, err error) {
	if ok, err := local.LoadNote(b.Notes, key, &e); err != nil || !ok {
		return e, now, nil, err
	}
	if c, err = b.client(ctx, e.Account); err != nil {
		return e, now, nil, err
	}
	at, err := c.resolve(c.root, e.URL)
	if err != nil {
		return e, now, nil, err
	}
	now, err = c.get(ctx, at)
	return e, now, c, err
}

// Applied implements local.Changes.
func (b Book) Applied(ctx context.Context, key string) (reply string, ok bool, err error) {
	e, now, c, err := b.load(ctx, key)
	switch {
	case err != nil || c == nil:
		return "", false, err
	case e.Text == "" && now.Text != "", Same(now.Text, e.After): // the name of a new object is unique
		return e.Reply, true, nil
	case Same(now.Text, e.Text):
		return "", false, nil
	}
	return "", false, local.OutcomeUnknown(e.What)
}

// Revert implements local.Changes.
func (b Book) Revert(ctx context.Context, key string) (reply string, err error) {
	e, now, c, err := b.load(ctx, key)
	reply = e.What + " is restored."
	switch {
	case err != nil:
		return "", err
	case c == nil:
		return "", local.NotApplied()
	case Same(now.Text, e.Text): // it was undone before
		return reply, nil
	case !Same(now.Text, e.After):
		return "", local.ChangedSince(e.What)
	}
	now.URL = e.URL
	return reply, b.write(ctx, c, now, e.Text)
}

// significantNames are the properties that make two texts different. Servers add and rewrite others.
var significantNames = strings.Fields("UID RECURRENCE-ID SUMMARY DESCRIPTION LOCATION DTSTART DTEND DURATION DUE RRULE RDATE EXDATE STATUS ATTENDEE FN N EMAIL TEL BDAY ORG NOTE")

// Same reports whether two texts of iCalendar or vCard say the same.
func Same(a, b string) bool { return slices.Equal(significantLines(a), significantLines(b)) }

// significantLines returns the lines that count, sorted.
func significantLines(text string) (out []string) {
	var in []string // the components around a line
	for _, l := range Lines(text) {
		switch {
		case l.Name == "BEGIN":
			in = append(in, strings.ToUpper(l.Value))
		case l.Name == "END":
			in = in[:max(0, len(in)-1)]
		case len(in) > 0 && slices.Contains([]string{Events, Tasks, Contacts}, in[len(in)-1]) && slices.Contains(significantNames, l.Name):
			if l.Name == "ATTENDEE" { // its other parameters are the server's
				_, status, _ := strings.Cut(strings.ToUpper(l.Params), "PARTSTAT=")
				status, _, _ = strings.Cut(status, ";")
				l.Value = status + strings.TrimPrefix(strings.ToLower(l.Value), "mailto:")
			}
			out = append(out, l.Name+":"+l.Value)
		}
	}
	slices.Sort(out)
	return out
}
