package dav

import (
	"context"
	"slices"
	"strings"

	ical "github.com/emersion/go-ical"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/tool"
)

// maxFile bounds a calendar's file, in bytes.
const maxFile = 16 << 20

// Edit is a change of one object. In a file it is a change of one event, and the texts are its lines.
type Edit struct {
	Object        // its place and ETag (none: it is new), and its text before
	After  string // its new text; empty: it is removed
	Told   string // what is said of the change
	What   string // what the object is called
	Undone bool
	Before string // in notes of earlier versions: Text
}

// Book makes edits for one user.
type Book struct {
	Accounts Accounts
	User     string
	Media    string // text/calendar or text/vcard
	Notes    string // the place beside which edits are noted; see local.Keep
	File     string // the user's calendar is this file, not on a server; other programs may read and write it, too
}

func (b Book) client(ctx context.Context, account string) (*client, error) {
	own, err := b.Accounts.of(ctx, b.User)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(own, func(a Account) bool { return a.Name == account })
	if i < 0 {
		return nil, tool.NotDone(fault.New(fault.NotFound, "dav_account_unknown", "the settings name no account %.100q any more", account))
	}
	return open(own[i], b.Accounts.Transport)
}

// ReadFile returns the content of the file.
func (b Book) ReadFile() (string, error) {
	data, err := local.ReadFile(b.File, maxFile)
	return string(data), err
}

// Do makes an edit. Error codes: changed_since and those of the server.
func (b Book) Do(ctx context.Context, key string, e Edit) (string, error) {
	if b.File == "" && e.Text != "" && e.ETag == "" {
		return "", tool.NotDone(fault.New(fault.Unsupported, "dav_etag_missing", "the server does not say which version of %s it has, so a change could overwrite somebody else's", e.What))
	}
	if err := local.Keep(b.Notes, key, e); err != nil {
		return "", tool.NotDone(err)
	}
	return e.Told, b.write(ctx, e, e.Object, e.After)
}

// write makes an object what it shall be. The object is as it was when it has its ETag, or, without one,
// when there is none; an event in a file when it has the same lines.
func (b Book) write(ctx context.Context, e Edit, was Object, text string) error {
	if b.File != "" {
		return local.Update(ctx, b.File, maxFile, func(old []byte) ([]byte, error) {
			pieces := Split(string(old), Events)
			if LinesOf(pieces, e.uid()) != was.Text {
				return nil, changedMeanwhile()
			}
			return []byte(Join(Replace(pieces, e.uid(), text))), nil
		}, nil)
	}
	c, err := b.client(ctx, e.Account)
	if err != nil {
		return tool.NotDone(err)
	}
	if text == "" {
		return c.remove(ctx, was)
	}
	was.Text = text
	return c.put(ctx, was, b.Media)
}

// uid returns the UID of the event that is changed.
func (e Edit) uid() string {
	for _, p := range Split(e.Text+e.After, Events) {
		if p.Comp != nil {
			return TextOf(p.Comp, ical.PropUID)
		}
	}
	return ""
}

// load returns the edit under a key, if there is one, and the object as it is now.
func (b Book) load(ctx context.Context, key string) (e Edit, now Object, ok bool, err error) {
	if ok, err = local.Kept(b.Notes, key, &e); err != nil || !ok {
		return e, now, false, err
	}
	if e.Text += e.Before; b.File != "" {
		text, err := b.ReadFile()
		return e, Object{Text: LinesOf(Split(text, Events), e.uid())}, true, err
	}
	c, err := b.client(ctx, e.Account)
	if err != nil {
		return e, now, true, err
	}
	at, err := c.resolve(c.root, e.URL)
	if err != nil {
		return e, now, true, err
	}
	now, _, err = c.get(ctx, at)
	now.URL = e.URL
	return e, now, true, err
}

// same reports whether the object has the text of an edit.
func (b Book) same(now Object, e Edit, text string) bool {
	if b.File != "" {
		return now.Text == LinesOf(Split(text, Events), e.uid())
	}
	return Same(now.Text, text)
}

// Applied implements local.Changes.
func (b Book) Applied(ctx context.Context, key string) (told string, ok bool, err error) {
	e, now, ok, err := b.load(ctx, key)
	switch {
	case err != nil || !ok:
		return "", false, err
	case e.Undone, e.Text == "" && now.Text != "", b.same(now, e, e.After): // nobody else has the name of a new object
		return e.Told, true, nil
	case b.same(now, e, e.Text):
		return "", false, nil
	}
	return "", false, local.Unsettled(e.What)
}

// Revert implements local.Changes.
func (b Book) Revert(ctx context.Context, key string) (told string, err error) {
	e, now, ok, err := b.load(ctx, key)
	told = e.What + " is as it was before."
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", local.NotApplied()
	case b.same(now, e, e.Text): // it was undone before
	case !b.same(now, e, e.After):
		return "", local.ChangedSince(e.What)
	default:
		err = b.write(ctx, e, now, e.Text)
	}
	if err == nil {
		e.Undone, e.Before = true, ""
		err = local.Keep(b.Notes, key, e)
	}
	return told, err
}

// counted are the properties that make two texts different. Servers add and rewrite others.
var counted = strings.Fields("UID RECURRENCE-ID SUMMARY DESCRIPTION LOCATION DTSTART DTEND DURATION DUE RRULE RDATE EXDATE STATUS ATTENDEE FN N EMAIL TEL BDAY ORG NOTE")

// Same reports whether two texts of iCalendar or vCard say the same.
func Same(a, b string) bool { return slices.Equal(essence(a), essence(b)) }

// essence returns the lines that count, sorted.
func essence(text string) (out []string) {
	var in []string // the components around a line
	for _, l := range Lines(text) {
		switch {
		case l.Name == "BEGIN":
			in = append(in, strings.ToUpper(l.Value))
		case l.Name == "END":
			in = in[:max(0, len(in)-1)]
		case len(in) > 0 && slices.Contains([]string{Events, Tasks, Contacts}, in[len(in)-1]) && slices.Contains(counted, l.Name):
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
