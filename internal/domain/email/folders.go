package email

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tool"
)

// folders is a user's mailbox: .eml files in two folders. The name of a sent e-mail derives from the key
// of the call, so a repeated call sends nothing.
type folders struct {
	inbox, outbox string
	from          *mail.Address
	now           func() time.Time
}

const ending = ".eml"

func sentName(key string) string { return id.Derive("email.send", key).String() }

// Send sends a draft, once for each key.
func (f *folders) Send(_ context.Context, key string, d Draft) error {
	name := sentName(key)
	raw, err := encode(d, f.from, name, f.now())
	if err != nil {
		return tool.NotDone(err)
	}
	path := filepath.Join(f.outbox, name+ending)
	err = local.Create(path, raw)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if _, statErr := os.Stat(path); statErr != nil {
		return tool.NotDone(local.Fault(path, err))
	}
	return local.Fault(path, err) // it was written, but perhaps not synced
}

// Revert implements local.Reverter. It moves the e-mail from the outbox to a hidden folder.
func (f *folders) Revert(_ context.Context, key string) (string, error) {
	path := filepath.Join(f.outbox, sentName(key)+ending)
	aside := filepath.Join(f.outbox, ".taken-back", sentName(key)+ending)
	const told = "The e-mail was taken back out of the outbox."
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(aside); err == nil {
			return told, nil
		}
		return "", local.NotApplied()
	}
	if err != nil {
		return "", tool.NotDone(local.Fault(path, err))
	}
	if err := local.Replace(aside, raw); err != nil {
		return "", tool.NotDone(local.Fault(aside, err))
	}
	if err := os.Remove(path); err != nil {
		return "", tool.NotDone(local.Fault(path, err))
	}
	return told, nil
}

// Applied implements local.Journal.
func (f *folders) Applied(_ context.Context, key string) (string, bool, error) {
	path := filepath.Join(f.outbox, sentName(key)+ending)
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return "The e-mail was sent.", true, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	}
	return "", false, local.Fault(path, err)
}

func (f *folders) dir(folder string) string {
	if folder == Outbox {
		return f.outbox
	}
	return f.inbox
}

// List returns a folder's e-mails, newest first, at most limit.
func (f *folders) List(ctx context.Context, folder string, limit int) ([]Header, error) {
	all, err := f.load(ctx, folder)
	if err != nil {
		return nil, err
	}
	return heads(all, limit), nil
}

// Search returns the e-mails of both folders that have all the words in their headers or texts, newest
// first, at most limit.
func (f *folders) Search(ctx context.Context, query string, limit int) ([]Header, error) {
	var found []Email
	for _, folder := range []string{Inbox, Outbox} {
		all, err := f.load(ctx, folder)
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			if e.has(query) {
				found = append(found, e)
			}
		}
	}
	return heads(found, limit), nil
}

// has reports whether the e-mail has all the words of a query.
func (e Email) has(query string) bool {
	return local.HasWords(strings.Join([]string{e.From, strings.Join(e.To, " "), strings.Join(e.Cc, " "), e.Subject, e.Text, strings.Join(e.Attachments, " ")}, "\n"), query)
}

// heads returns the headers of e-mails, newest first.
func heads(all []Email, limit int) []Header {
	slices.SortStableFunc(all, func(a, b Email) int {
		return cmp.Or(b.Date.Compare(a.Date), cmp.Compare(a.ID, b.ID))
	})
	out := []Header{}
	for _, e := range all[:min(len(all), limit)] {
		out = append(out, e.Header)
	}
	return out
}

// load reads a folder. An e-mail that cannot be read is returned with its Problem.
func (f *folders) load(ctx context.Context, folder string) ([]Email, error) {
	root, err := os.OpenRoot(f.dir(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, local.Fault(folder, err)
	}
	defer root.Close() // only read from
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, local.Fault(folder, err)
	}
	var out []Email
	for _, d := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		name, ok := strings.CutSuffix(d.Name(), ending)
		if !ok || strings.HasPrefix(name, ".") || d.IsDir() {
			continue
		}
		e, err := readEML(root, d.Name())
		if err != nil {
			e = Email{Header: Header{Problem: err.Error()}}
		}
		e.ID, e.Folder = folder+"/"+name, folder
		out = append(out, e)
	}
	return out, nil
}

// Read returns an e-mail by its ID (email_not_found).
func (f *folders) Read(_ context.Context, id string) (Email, error) {
	folder, name, ok := strings.Cut(id, "/")
	if !ok || folder != Inbox && folder != Outbox {
		folder, name = Inbox, id
	}
	missing := fault.New(fault.NotFound, "email_not_found", "there is no e-mail %.100q", id).WithHint("list the e-mails, and give the id that is shown")
	if name == "" || strings.HasPrefix(name, ".") || !filepath.IsLocal(name) {
		return Email{}, missing
	}
	root, err := os.OpenRoot(f.dir(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return Email{}, missing
	} else if err != nil {
		return Email{}, local.Fault(folder, err)
	}
	defer root.Close() // only read from
	e, err := readEML(root, strings.TrimSuffix(name, ending)+ending)
	if errors.Is(err, fs.ErrNotExist) {
		return Email{}, missing
	}
	if err != nil {
		return Email{}, local.Fault(name, err)
	}
	e.ID, e.Folder = folder+"/"+strings.TrimSuffix(name, ending), folder
	return e, nil
}

func readEML(root *os.Root, name string) (Email, error) {
	info, err := root.Stat(name)
	if err != nil {
		return Email{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEML {
		return Email{}, errors.New("it is no plain file, or too large")
	}
	file, err := root.Open(name)
	if err != nil {
		return Email{}, err
	}
	defer file.Close() // only read from
	raw, err := io.ReadAll(io.LimitReader(file, maxEML))
	if err != nil {
		return Email{}, err
	}
	e := decode(raw)
	if e.Date.IsZero() {
		e.Date = info.ModTime()
	}
	return e, nil
}
