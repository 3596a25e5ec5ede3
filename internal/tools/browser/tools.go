package browser

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// shown is how many bytes of an outline one call returns.
const shown = 20_000

type openArgs struct {
	URL string `json:"url" jsonschema:"Address of the page, http or https" minlen:"8" maxlen:"2000"`
}

type readArgs struct {
	From int `json:"from,omitzero" jsonschema:"Where to begin in the outline, to read on" min:"0" max:"1048576"`
}

type clickArgs struct {
	Site    string `json:"site" jsonschema:"Host of the page, as in its address" minlen:"1" maxlen:"300"`
	Element string `json:"element" jsonschema:"Id of the element in the outline, such as e12" pattern:"^e[0-9]{1,9}$"`
	Name    string `json:"name" jsonschema:"Name of the element, exactly as in the outline" maxlen:"2001"`
}

type fillArgs struct {
	Site   string  `json:"site" jsonschema:"Host of the page, as in its address" minlen:"1" maxlen:"300"`
	Fields []field `json:"fields" jsonschema:"What to fill in" minlen:"1" maxlen:"30"`
}

type field struct {
	Element string `json:"element" jsonschema:"Id of the field in the outline, such as e12" pattern:"^e[0-9]{1,9}$"`
	Name    string `json:"name" jsonschema:"Name of the field, exactly as in the outline" maxlen:"2001"`
	Text    string `json:"text" jsonschema:"The text; for a list the name of the option; for a box yes or no" maxlen:"10000"`
}

// Tools returns the tools of the browsers.
func (s *Browsers) Tools() ([]tool.Tool, error) {
	k := local.NewKit(tool.Env{Name: "browser"}, "browser")
	spec := func(name, describe, log string, reach tool.Reach, targets ...string) tool.Spec {
		return tool.Spec{Name: name, Description: describe, Reach: reach, Targets: targets,
			Yields: message.Untrusted, Timeout: time.Minute, ResultCap: shown + 4<<10, Log: tool.LogSpec{Summary: log}}
	}
	old := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{"browser.open", "browser.read", "browser.click", "browser.fill"}}}
	open := spec("open", "Opens a page in a real browser and returns its outline: roles, names, ids of elements, addresses of links. Use it for pages that web.fetch cannot read because scripts make them, and for forms. To follow a link, open its address.",
		"Open {url} in a browser", tool.ReachOut, "url")
	open.Tidy = old
	open.Widths = []tool.Width{{Name: "open any page of {url:host}", Host: []string{"url"}}}
	local.Query(k, open, s.openPage)
	local.Query(k, spec("read", "Returns the outline of the open page as it is now.", "Read the open page", tool.ReachHere), withBrowser(s, (*chromium).readPage))
	click := spec("click", "Clicks an element of the open page, such as a button, and returns the outline after it.",
		"Click {name|something without a name} on {site}", tool.ReachOut, "site")
	click.Tidy, click.Log.Does = old, "clicks on a page, which may send something"
	click.Widths = []tool.Width{{Name: "click {name} on {site}, wherever it stands", Any: []string{"element"}},
		{Name: "click anything on {site}", Any: []string{"element", "name"}}}
	local.Action(k, click, withBrowser(s, (*chromium).click), nil)
	fill := spec("fill", "Fills in fields of the open page, without sending the form. To send it, click its button.",
		"Fill in a form on {site}", tool.ReachOut, "site")
	fill.Tidy, fill.Log.Does = old, "types into a page, which may send it"
	fill.Widths = []tool.Width{{Name: "fill in any form on {site}", Any: []string{"fields"}}}
	local.Action(k, fill, withBrowser(s, (*chromium).fill), nil)
	shot := spec("screenshot", "Returns a picture of the visible part of the open page.", "Look at the open page", tool.ReachHere)
	shot.Tidy = []tool.Strategy{{Kind: tool.ByTool, Tools: []string{"browser.screenshot"}}}
	local.Query(k, shot, withBrowser(s, (*chromium).screenshot))
	closing := spec("close", "Closes the browser of this conversation and forgets everything in it.", "Close the browser", tool.ReachHere)
	closing.Yields = 0
	local.Query(k, closing, func(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
		return "The browser is closed.", s.shut(ctx, in)
	})
	return k.Tools()
}

// openPage is browser.open. Chromium itself lets no page lead to file: or to its own pages.
func (s *Browsers) openPage(ctx context.Context, in tool.Invocation, a openArgs) (none tool.Result, err error) {
	u, err := url.Parse(strings.TrimSpace(a.URL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return none, fault.New(fault.Invalid, "url_invalid", "%.200q is not the address of a page", a.URL).WithHint("write it like https://example.org/page, without a user name")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if _, err := (egress.Dialer{Rule: s.opt.Network}).Check(ctx, net.JoinHostPort(u.Hostname(), port)); err != nil {
		return none, err // the proxy would say so too, but to the browser
	}
	b, release, err := s.acquire(ctx, in, true)
	if err != nil {
		return none, err
	}
	defer release()
	p, err := b.shown()
	if err != nil { // pages can close themselves
		if err = b.call(ctx, "", "Target.createTarget", m{"url": "about:blank"}, nil); err == nil {
			b.await(ctx, loadTime, func() bool { return len(b.pages) > 0 })
			p, err = b.shown()
		}
	}
	var went struct {
		ErrorText  string
		IsDownload bool
	}
	if err == nil {
		err = b.call(ctx, p.session, "Page.enable", nil, nil)
	}
	if err == nil {
		err = b.call(ctx, p.session, "Page.navigate", m{"url": u.String()}, &went)
	}
	switch {
	case err != nil:
		return none, b.endCause(err)
	case went.IsDownload:
		return none, fault.New(fault.Denied, "page_download", "%s is a file, and the browser saves none", u).WithHint("read it without the browser")
	case went.ErrorText != "":
		return none, fault.New(fault.Unavailable, "page_unreachable", "%s cannot be opened: %s", u, went.ErrorText)
	}
	b.waitSettled(ctx)
	return b.outlineFrom(ctx, 0)
}

// withBrowser makes the function of a tool that works in the open browser of the conversation, which it holds.
func withBrowser[In any](s *Browsers, fn func(*chromium, context.Context, In) (tool.Result, error)) func(context.Context, tool.Invocation, In) (tool.Result, error) {
	return func(ctx context.Context, in tool.Invocation, a In) (tool.Result, error) {
		b, release, err := s.acquire(ctx, in, false)
		if err != nil {
			return tool.Result{}, tool.NotDone(err)
		}
		defer release()
		return fn(b, ctx, a)
	}
}

func (b *chromium) readPage(ctx context.Context, a readArgs) (tool.Result, error) {
	return b.outlineFrom(ctx, a.From)
}

// labels of what the browser shows: once something was filled in, a page may show what is the
// user's own.
func (b *chromium) labels() message.Labels {
	if b.filled {
		return message.Untrusted | message.Private
	}
	return message.Untrusted
}

// outlineFrom returns the outline of the page that is shown, from a place on.
func (b *chromium) outlineFrom(ctx context.Context, from int) (none tool.Result, err error) {
	p, err := b.shown()
	if err != nil {
		return none, err
	}
	at, err := b.address(ctx, p)
	if err != nil {
		return none, err
	}
	var tree struct{ Nodes []node }
	if err := b.call(ctx, p.session, "Accessibility.getFullAXTree", nil, &tree); err != nil {
		return none, b.endCause(err)
	}
	part, next := local.CutAtLine(outline(tree.Nodes), from, shown)
	text := fmt.Sprintf("%s\n%s\n\n%s", oneLine(at.Title), at.URL, part)
	if next > 0 {
		text += fmt.Sprintf("\n[The page continues: read on from %d.]", next)
	}
	res := tool.Text(text)
	res.Labels = b.labels()
	return res, nil
}

// location is where a page is.
type location struct{ Title, URL string }

func (b *chromium) address(ctx context.Context, p page) (location, error) {
	var info struct{ TargetInfo location }
	err := b.call(ctx, "", "Target.getTargetInfo", m{"targetId": p.target}, &info)
	return info.TargetInfo, b.endCause(err)
}

// screenshot is browser.screenshot.
func (b *chromium) screenshot(ctx context.Context, _ struct{}) (none tool.Result, err error) {
	p, err := b.shown()
	if err != nil {
		return none, err
	}
	var shot struct{ Data []byte }
	if err := b.call(ctx, p.session, "Page.captureScreenshot", m{"format": "jpeg", "quality": 70}, &shot); err != nil {
		return none, b.endCause(err)
	}
	return tool.Result{Content: []message.Block{&message.Image{MIME: "image/jpeg", Data: shot.Data}}, Labels: b.labels()}, nil
}
