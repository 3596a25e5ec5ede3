package api

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/store"
)

// inConversation is the path parameter that names a conversation.
type inConversation struct {
	Conv id.ID `path:"id" what:"conversation"`
}

func view(c record.Conversation) client.Conversation {
	return client.Conversation{ID: c.ID.String(), Title: c.Title, Created: c.Created, Updated: c.Updated, Agent: c.Agent, Model: c.Model,
		Tools: c.Tools, Metadata: c.Metadata, Window: c.Window, Messages: c.Messages, ToolCalls: c.ToolCalls, Tokens: client.Usage(c.Tokens), Pinned: c.Pinned, Archived: c.Archived}
}

type conversationList struct {
	Conversations []client.Conversation `json:"conversations"`
	Next          store.Cursor          `json:"next,omitzero"`
}

func (f *server) conversations(ctx context.Context, c *call, in page) (conversationList, error) {
	list, next, err := f.Node.Conversations.List(ctx, store.ForUser(c.User), in.After, in.limit())
	out := conversationList{make([]client.Conversation, len(list)), next}
	for i, conv := range list {
		out.Conversations[i] = view(conv)
	}
	return out, err
}

func (f *server) conversation(ctx context.Context, c *call, in inConversation) (client.Conversation, error) {
	conv, err := f.Node.Conversations.Get(ctx, store.ForUser(c.User), in.Conv)
	return view(conv), err
}

// modelContext shows what the next model call of a conversation sends.
func (f *server) modelContext(ctx context.Context, c *call, in inConversation) (client.Context, error) {
	return f.Node.Context(ctx, c.User, in.Conv)
}

// modelCall shows what was sent to a model for an answer.
func (f *server) modelCall(ctx context.Context, c *call, in struct {
	inConversation
	Message id.ID `path:"message" what:"message"`
}) (client.ModelCall, error) {
	return f.Node.ModelCall(ctx, c.User, in.Conv, in.Message)
}

const maxTitle = 200 // characters

// title trims and checks a title. An empty title is valid.
func title(s string) (string, error) {
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) > maxTitle || strings.ContainsFunc(s, unicode.IsControl) {
		return "", fault.New(fault.Invalid, "title_invalid", "a title is one line of at most %d characters", maxTitle)
	}
	return s, nil
}

// changeConversation renames, pins or archives a conversation.
func (f *server) changeConversation(ctx context.Context, c *call, in struct {
	inConversation
	Body client.ConversationChange `body:""`
}) (client.Conversation, error) {
	x := in.Body
	if x.Title == nil && x.Pinned == nil && x.Archived == nil {
		return client.Conversation{}, fault.New(fault.Invalid, "change_empty", "nothing is to be changed").WithHint("give a title, pinned or archived")
	}
	name := ""
	if x.Title != nil {
		var err error
		if name, err = title(*x.Title); err == nil && name == "" {
			err = fault.New(fault.Invalid, "title_invalid", "a title is one line of 1 to %d characters", maxTitle)
		}
		if err != nil {
			return client.Conversation{}, err
		}
	}
	conv, err := f.Node.Conversations.Update(ctx, store.ForUser(c.User), in.Conv, func(r *record.Conversation) {
		if name != "" {
			r.Title = name
		}
		if x.Pinned != nil {
			r.Pinned = *x.Pinned
		}
		if x.Archived != nil {
			r.Archived = *x.Archived
		}
	})
	return view(conv), err
}

func (f *server) deleteConversation(ctx context.Context, c *call, in struct {
	inConversation
	Erase bool `query:"erase"`
}) (noContent, error) {
	err := f.Node.Delete(ctx, c.User, in.Conv)
	if err == nil && in.Erase {
		err = f.Node.Erase(ctx, c.User, in.Conv)
	}
	return noContent{}, err
}

func (f *server) undelete(ctx context.Context, c *call, in struct {
	inConversation
	Body struct {
		Branch string `json:"branch"`
	} `body:""`
}) (noContent, error) {
	if in.Body.Branch != "" {
		if err := branchName(in.Body.Branch); err != nil {
			return noContent{}, err
		}
	}
	return noContent{}, f.Node.Undelete(ctx, c.User, in.Conv, in.Body.Branch)
}

func (f *server) export(ctx context.Context, c *call, in struct {
	inConversation
	Format      string `query:"format"`
	MaskPrivate bool   `query:"mask_private"`
}) (written, error) {
	mime := "application/json"
	switch formats := conversation.ExportFormats(); {
	case in.Format == "":
		in.Format = "json"
	case in.Format == "markdown":
		mime = "text/markdown; charset=utf-8"
	case !slices.Contains(formats, in.Format):
		return written{}, fault.New(fault.Invalid, "format_unknown", "there is no format %.40q", in.Format).WithHint("use one of %s", strings.Join(formats, ", "))
	}
	return f.stream(c, mime, func(w *lateHeader) error {
		return f.Node.Conversations.ExportAs(ctx, store.ForUser(c.User), in.Conv, conversation.ExportOptions{Format: in.Format, MaskPrivate: in.MaskPrivate}, w)
	})
}

// search answers with a page of matching messages.
func (f *server) search(ctx context.Context, c *call, in struct {
	Text         string         `query:"q"`
	Order        search.Order   `query:"order"`
	Mode         search.Mode    `query:"mode"`
	Role         message.Role   `query:"role"`
	Tool         string         `query:"tool"`
	Agent        string         `query:"agent"`
	Labels       message.Labels `query:"labels"`
	Without      message.Labels `query:"without"`
	Conversation id.ID          `query:"conversation"`
	Message      id.ID          `query:"message"`
	Since        time.Time      `query:"since"`
	Until        time.Time      `query:"until"`
	Limit        int            `query:"limit" range:"1,100"`
	Threshold    float64        `query:"threshold" range:"0,1"`
	Around       int            `query:"around" range:"0,5"`
	Rerank       bool           `query:"rerank"`
	After        search.Cursor  `query:"after"`
}) (search.Page, error) {
	switch in.Role {
	case "", message.User, message.Assistant, message.Tool:
	default:
		return search.Page{}, fault.New(fault.Invalid, "role_unknown", "unknown role %.40q", in.Role).WithHint("use user, assistant or tool")
	}
	return f.Node.Search(ctx, c.User, search.Query{Text: in.Text, Order: in.Order, Mode: in.Mode, Role: in.Role, Tool: in.Tool, Agent: in.Agent,
		Labels: in.Labels, Without: in.Without, Conversation: in.Conversation, Message: in.Message, Since: in.Since, Until: in.Until,
		Limit: in.Limit, Threshold: in.Threshold, Around: in.Around, Rerank: in.Rerank, After: in.After})
}

func viewShare(s identity.Share) client.Share {
	return client.Share{ID: s.ID.String(), Conversation: s.Conversation.String(), Private: s.Private, Created: s.Created, Expires: s.Expires}
}

// shares answers with the links by which a conversation can be read.
func (f *server) shares(ctx context.Context, c *call, in inConversation) (map[string][]client.Share, error) {
	if _, err := f.Node.Conversations.Get(ctx, store.ForUser(c.User), in.Conv); err != nil {
		return nil, err
	}
	list, err := f.People.Shares(ctx, c.User, in.Conv)
	out := make([]client.Share, len(list))
	for i, s := range list {
		out[i] = viewShare(s)
	}
	return the("shares", out), err
}

func (f *server) newShare(ctx context.Context, c *call, in struct {
	inConversation
	Body client.NewShare `body:""`
}) (client.Share, error) {
	if _, err := f.Node.Conversations.Get(ctx, store.ForUser(c.User), in.Conv); err != nil {
		return client.Share{}, err
	}
	within, err := time.ParseDuration(in.Body.Within)
	if err != nil {
		return client.Share{}, fault.New(fault.Invalid, "share_expiry_invalid", "%.40q is not a duration", in.Body.Within).WithHint("write 24h or 168h")
	}
	s, secret, err := f.People.NewShare(ctx, identity.Share{User: c.User, Conversation: in.Conv, Private: in.Body.Private}, within)
	out := viewShare(s)
	if err == nil {
		out.Path = "/shared/" + url.PathEscape(c.User) + "/" + secret
	}
	return out, err
}

func (f *server) endShare(ctx context.Context, c *call, in struct {
	ID id.ID `path:"id" what:"share"`
}) (noContent, error) {
	return noContent{}, f.People.EndShare(ctx, c.User, in.ID)
}
