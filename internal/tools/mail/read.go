package mail

import (
	"cmp"
	"context"
	"fmt"
	"mime"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Limits of a conversation that is shown.
const (
	maxThread  = 30   // e-mails
	maxExcerpt = 2000 // bytes of each
)

// criteria returns what to search for.
func (a searchArgs) criteria(zone *time.Location) (*imap.SearchCriteria, error) {
	c := &imap.SearchCriteria{}
	for _, h := range []imap.SearchCriteriaHeaderField{{Key: "From", Value: a.From}, {Key: "To", Value: a.To}, {Key: "Subject", Value: a.Subject}} {
		if h.Value != "" {
			c.Header = append(c.Header, h)
		}
	}
	if a.Text != "" {
		c.Text = []string{a.Text}
	}
	if a.Label != "" {
		f, err := flagOf(a.Label)
		if err != nil {
			return nil, err
		}
		c.Flag = []imap.Flag{f}
	}
	if a.Unread {
		c.NotFlag = []imap.Flag{imap.FlagSeen}
	}
	for _, day := range []struct {
		text string
		to   *time.Time
	}{{a.Since, &c.Since}, {a.Before, &c.Before}} {
		if day.text == "" {
			continue
		}
		at, err := local.ParseDay(day.text, time.Now().In(zone))
		if err != nil {
			return nil, err
		}
		*day.to = at
	}
	for _, text := range []string{a.From, a.To, a.Subject, a.Text} {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
			return nil, fault.New(fault.Invalid, "mail_search_invalid", "%.100q has characters that cannot be searched for", text)
		}
	}
	return c, nil
}

func (s *service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	zone := s.Location(in.User)
	want, err := a.criteria(zone)
	if err != nil {
		return "", err
	}
	c, err := s.connect(ctx, in.User, a.Account)
	if err != nil {
		return "", err
	}
	defer c.close()
	found, err := c.find(a.Folder, want)
	if err != nil {
		return "", broken(ctx, c.account, err)
	}
	if len(found) == 0 {
		return "No e-mail was found.", nil
	}
	all := len(found)
	found = found[:min(all, maxFound)]
	page := max(a.Page, 1)
	first := (page - 1) * pageSize
	if first >= len(found) {
		return "", fault.New(fault.Invalid, "mail_page_unknown", "there is no page %d: %d e-mails were found", page, all)
	}
	shown := found[first:min(first+pageSize, len(found))]
	var b strings.Builder
	fmt.Fprintf(&b, "%d found", all)
	if len(found) > pageSize {
		fmt.Fprintf(&b, ", page %d of %d", page, (len(found)+pageSize-1)/pageSize)
	}
	if all > maxFound {
		fmt.Fprintf(&b, "; only the newest %d can be listed: narrow the search", maxFound)
	}
	b.WriteString(".\n")
	heads, err := c.heads(shown)
	if err != nil {
		return "", broken(ctx, c.account, err)
	}
	for _, h := range heads {
		fmt.Fprintf(&b, "- %s\n", h.line(zone))
	}
	return b.String(), nil
}

// find returns what matches in a folder, newest first. For all mail on a server without such a
// folder it looks into the inbox, the archive and what was sent.
func (c *client) find(folder string, want *imap.SearchCriteria) (out []place, err error) {
	names := []string{folder}
	if strings.EqualFold(folder, "all") {
		if _, err := c.folder("all"); err != nil {
			names = []string{"inbox", "archive", "sent"}
		}
	}
	for i, n := range names {
		name, err := c.folder(n)
		if err != nil {
			if i > 0 {
				continue // not everybody has an archive
			}
			return nil, err
		}
		sel, err := c.Select(name, &imap.SelectOptions{ReadOnly: true}).Wait()
		if err != nil {
			return nil, err
		}
		data, err := c.UIDSearch(want, nil).Wait()
		if err != nil {
			return nil, err
		}
		uids := data.AllUIDs()
		slices.Sort(uids)
		for _, uid := range slices.Backward(uids) {
			out = append(out, place{c.account.Name, sel.UIDValidity, uid, name})
		}
	}
	return out, nil
}

// head is an e-mail as lists show it.
type head struct {
	place
	*imap.Envelope
	flags []imap.Flag
	date  time.Time
}

// heads fetches the heads of e-mails, which are in few folders, in their order.
func (c *client) heads(places []place) (out []head, err error) {
	byPlace := map[place]head{}
	for folder := range slices.Values(slices.Compact(folders(places))) {
		var uids imap.UIDSet
		var like place
		for _, p := range places {
			if p.folder == folder {
				uids.AddNum(p.uid)
				like = p
			}
		}
		if m := c.Mailbox(); m == nil || m.Name != folder {
			if _, err := c.Select(folder, &imap.SelectOptions{ReadOnly: true}).Wait(); err != nil {
				return nil, err
			}
		}
		list, err := c.Fetch(uids, &imap.FetchOptions{Envelope: true, Flags: true, InternalDate: true, UID: true}).Collect()
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			p := like
			p.uid = m.UID
			if m.Envelope != nil {
				byPlace[p] = head{p, m.Envelope, m.Flags, cmp.Or(m.Envelope.Date, m.InternalDate)}
			}
		}
	}
	for _, p := range places {
		if h, ok := byPlace[p]; ok {
			out = append(out, h)
		}
	}
	return out, nil
}

func folders(places []place) (names []string) {
	for _, p := range places {
		names = append(names, p.folder)
	}
	slices.Sort(names)
	return names
}

func (h head) line(zone *time.Location) string {
	who := "from " + names(h.From)
	if slices.Contains(h.flags, imap.FlagDraft) {
		who = "draft to " + names(h.To)
	}
	unread := ""
	if !slices.Contains(h.flags, imap.FlagSeen) {
		unread = ", unread"
	}
	if slices.Contains(h.flags, imap.FlagFlagged) {
		unread += ", flagged"
	}
	if l := labels(h.flags); l != "" {
		unread += ", labels " + l
	}
	return fmt.Sprintf("%s, %q, %s%s (id %s)", who, short(h.Subject), stamp(h.date, zone), unread, h.place)
}

// labels returns the labels among flags: those that no standard names.
func labels(flags []imap.Flag) string {
	var out []string
	for _, f := range flags {
		if len(out) < 10 && !strings.HasPrefix(string(f), "\\") && !strings.HasPrefix(string(f), "$") {
			out = append(out, short(string(f)))
		}
	}
	return strings.Join(out, " ")
}

func names(list []imap.Address) string {
	return cmp.Or(joinSome(list, 5, func(a imap.Address) string {
		if a.Name == "" {
			return short(a.Addr())
		}
		return short(a.Name + " <" + a.Addr() + ">")
	}), "nobody")
}

// short makes one bounded line, so that an e-mail's author cannot write lines of Steward's output.
func short(s string) string { return local.Line(s, 200) }

func oneLine(s string) string { return local.Line(s, 100_000) }

func stamp(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return "without a date"
	}
	return t.In(zone).Format("Mon 2 Jan 2006 15:04")
}

// fetch reads a whole e-mail. The folder is selected.
func (c *client) fetch(ctx context.Context, p place) (letter, error) {
	one := imap.UIDSetNum(p.uid)
	list, err := c.Fetch(one, &imap.FetchOptions{RFC822Size: true, Flags: true, UID: true}).Collect()
	switch {
	case err != nil:
		return letter{}, tool.NotDone(broken(ctx, c.account, err))
	case len(list) == 0:
		return letter{}, tool.NotDone(missing(p))
	case list[0].RFC822Size > maxMessage:
		return letter{}, tool.NotDone(fault.New(fault.TooLarge, "mail_too_large", "the e-mail has %d MB: the limit is %d", list[0].RFC822Size>>20, maxMessage>>20))
	}
	whole := &imap.FetchItemBodySection{Peek: true}
	bodies, err := c.Fetch(one, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{whole}}).Collect()
	if err != nil {
		return letter{}, tool.NotDone(broken(ctx, c.account, err))
	}
	if len(bodies) == 0 {
		return letter{}, tool.NotDone(missing(p))
	}
	l := parse(bodies[0].FindBodySection(whole))
	l.flags = list[0].Flags
	return l, nil
}

func (s *service) load(ctx context.Context, user, id string) (letter, place, error) {
	c, p, err := s.at(ctx, user, id, false)
	if err != nil {
		return letter{}, p, err
	}
	defer c.close()
	l, err := c.fetch(ctx, p)
	return l, p, err
}

func (s *service) read(ctx context.Context, in tool.Invocation, a idArgs) (string, error) {
	l, p, err := s.load(ctx, in.User, a.ID)
	if err != nil {
		return "", err
	}
	text, err := s.textOf(ctx, l)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range [][2]string{{"From", l.from}, {"To", l.to}, {"Cc", l.cc}, {"Reply to", l.replyTo}, {"Subject", l.subject}, {"Date", stamp(l.date, s.Location(in.User))}, {"Id", p.String()}, {"Labels", labels(l.flags)}, {"Problem", l.problem}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	for i, at := range l.attached {
		fmt.Fprintf(&b, "Attachment %d: %s (%s, %d bytes)\n", i+1, at.name, at.media, len(at.data))
	}
	return b.String() + "\n" + text, nil
}

// textOf returns the text of an e-mail: its plain text, or what its HTML shows. If the HTML is broken, or made
// to use up memory, it says so, because the rest of the e-mail can be read.
func (s *service) textOf(ctx context.Context, l letter) (string, error) {
	if strings.TrimSpace(l.plain) != "" || len(l.html) == 0 {
		return strings.TrimSpace(l.plain), nil
	}
	doc, err := s.Reader.Read(ctx, extract.Input{Data: l.html, MediaType: "text/html; charset=utf-8", Whole: true})
	if err != nil && ctx.Err() == nil {
		return "(its text cannot be shown: " + fault.Of(err).Message + ")", nil
	}
	return doc.Text, err
}

func (s *service) thread(ctx context.Context, in tool.Invocation, a idArgs) (string, error) {
	c, p, err := s.at(ctx, in.User, a.ID, false)
	if err != nil {
		return "", err
	}
	defer c.close()
	l, err := c.fetch(ctx, p)
	if err != nil {
		return "", err
	}
	if l.id == "" {
		return "", fault.New(fault.NotFound, "mail_thread_unknown", "the e-mail has no Message-ID, so its conversation cannot be found").WithHint("search for its subject")
	}
	root := append(l.references, l.id)[0]
	has := func(field string) imap.SearchCriteria {
		return imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: field, Value: "<" + root + ">"}}}
	}
	found, err := c.find("all", &imap.SearchCriteria{Or: [][2]imap.SearchCriteria{{has("Message-Id"), has("References")}}})
	if err != nil {
		return "", broken(ctx, c.account, err)
	}
	heads, err := c.heads(found[:min(len(found), maxThread)])
	if err != nil {
		return "", broken(ctx, c.account, err)
	}
	slices.SortStableFunc(heads, func(a, b head) int { return a.date.Compare(b.date) })
	var b strings.Builder
	seen := map[string]bool{}
	for _, h := range heads {
		if seen[h.MessageID] {
			continue
		}
		seen[h.MessageID] = true
		if _, err := c.Select(h.folder, &imap.SelectOptions{ReadOnly: true}).Wait(); err != nil {
			return "", broken(ctx, c.account, err)
		}
		l, err := c.fetch(ctx, h.place)
		if fault.HasCode(err, "mail_too_large") {
			l.plain, err = "(it is too large to be shown)", nil
		}
		if err != nil {
			return "", err
		}
		text, err := s.textOf(ctx, l)
		if err != nil {
			return "", err
		}
		if len(text) > maxExcerpt {
			text = strings.ToValidUTF8(text[:maxExcerpt], "") + "… (mail.read shows the rest)"
		}
		fmt.Fprintf(&b, "%s\n%s\n\n", h.line(s.Location(in.User)), text)
	}
	return cmp.Or(strings.TrimSpace(b.String()), "No other e-mail belongs to it."), nil
}

func (s *service) attachment(ctx context.Context, in tool.Invocation, a attachmentArgs) (tool.Result, error) {
	l, _, err := s.load(ctx, in.User, a.ID)
	if err != nil {
		return tool.Result{}, err
	}
	if a.Number > len(l.attached) {
		return tool.Result{}, fault.New(fault.NotFound, "mail_attachment_unknown", "the e-mail has %d attachments", len(l.attached))
	}
	at := l.attached[a.Number-1]
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, at.media) {
		return tool.Result{Content: []message.Block{&message.Text{Text: at.name}, &message.Image{MIME: at.media, Data: at.data}}}, nil
	}
	media := at.media
	if media == "application/octet-stream" {
		media = mime.TypeByExtension(strings.ToLower(path.Ext(at.name)))
	}
	doc, err := s.Reader.Read(ctx, extract.Input{Data: at.data, MediaType: media, Whole: true})
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Text(at.name + "\n\n" + doc.Text), nil
}

// byMessageID returns an e-mail of a folder by its Message-ID, if it is there.
func (c *client) byMessageID(folder, id string) (place, bool, error) {
	sel, err := c.Select(folder, nil).Wait()
	if err != nil {
		return place{}, false, err
	}
	data, err := c.UIDSearch(&imap.SearchCriteria{Header: []imap.SearchCriteriaHeaderField{{Key: "Message-Id", Value: "<" + id + ">"}}}, nil).Wait()
	if err != nil || len(data.AllUIDs()) == 0 {
		return place{}, false, err
	}
	return place{c.account.Name, sel.UIDValidity, data.AllUIDs()[0], folder}, true, nil
}
