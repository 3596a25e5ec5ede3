package rpc

import (
	"context"
	"iter"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/turn"
)

// Work is what the services plan.Plan and assistant.Assistant need of the runtime.
type Work interface {
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
	Watch(ctx context.Context, user string, conversation id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
	Tasks(ctx context.Context, user string, under resource.URI, after store.Cursor, limit int) ([]requests.PlannedTask, store.Cursor, error)
	Agents(ctx context.Context) []kits.AgentView
}

// resourceForm is a common.Resource.
type resourceForm struct {
	URI resource.URI `json:"uri,omitzero"`
	resource.Metadata
}

// messageForm is a common.MessageV2.
type messageForm struct {
	Meta         resourceForm `json:"meta,omitzero"`
	Role         message.Role `json:"role"`
	Content      string       `json:"content"`
	Conversation string       `json:"conversation,omitzero"`
	Assistant    string       `json:"assistant,omitzero"`
	ID           string       `json:"id,omitzero"`
	Labels       []string     `json:"labels,omitempty"`
}

// planned serves plan.Plan.Process.
func (f *Server) planned(ctx context.Context, in *messageForm, send func(*messageForm) error) error {
	in.Assistant = kits.PlannerAgent
	return f.work(ctx, in, true, send)
}

// process serves assistant.Assistant.Process.
func (f *Server) process(ctx context.Context, in *messageForm, send func(*messageForm) error) error {
	return f.work(ctx, in, false, send)
}

// work has an agent work on a message, and sends what comes of it. If waits is set, what needs a person's
// approval waits for it; otherwise it is denied.
func (f *Server) work(ctx context.Context, in *messageForm, waits bool, send func(*messageForm) error) error {
	c, err := f.worker(ctx)
	if err != nil {
		return connectError(err)
	}
	t := turn.Input{ClientID: in.ID, Agent: in.Assistant, Attended: waits, Content: []message.Block{&message.Text{Text: in.Content}}}
	if in.Role != "" && in.Role != message.User {
		return connectError(fault.New(fault.Invalid, "role_unknown", "a message of the role %.40q cannot be processed", in.Role).WithHint("leave the role out"))
	}
	if in.Conversation != "" {
		var ok bool
		if t.Conversation, ok = id.Parse(in.Conversation); !ok {
			return connectError(fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", in.Conversation).WithHint("leave it out to begin a new one"))
		}
	}
	_, end, err := storing(ctx, len(in.Content))
	if err != nil {
		return connectError(err)
	}
	defer end()
	acc, err := f.Work.Send(ctx, c.User, t)
	if err != nil {
		return connectError(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ends, cancel)()
	told := func(m id.ID, role message.Role, text string, l message.Labels) error {
		return send(&messageForm{Meta: resourceForm{URI: record.InteractionURI(acc.Conversation, acc.Interaction).ChildID(record.TypeMessage, m)},
			Role: role, Content: text, Conversation: acc.Conversation.String(), Assistant: in.Assistant, ID: in.ID, Labels: l.Names()})
	}
	if err := told(acc.Message, message.User, in.Content, 0); err != nil {
		return err
	}
	for fr, err := range f.Work.Watch(ctx, c.User, acc.Conversation, turn.Cursor{Seq: acc.Seq}) {
		switch {
		case f.ends.Err() != nil:
			return errClosing()
		case err != nil:
			return connectError(err)
		case fr.Interaction != acc.Interaction:
		case fr.Kind == turn.FramePlanned:
			if err := send(changeOf(&fr, in, acc.Conversation)); err != nil {
				return err
			}
		case fr.Kind == turn.FrameError:
			return connectError(fr.Err)
		case fr.Kind == turn.FrameComplete:
			return told(fr.Stored.ID, message.Assistant, fr.Stored.Text(), message.LabelsOf(fr.Stored.Blocks))
		}
	}
	return errClosing()
}

// changeOf tells in a message how a task stands now.
func changeOf(fr *turn.Frame, in *messageForm, conversation id.ID) *messageForm {
	x := fr.Planned.Task
	said := x.Title + ": " + x.Status
	if fr.Planned.Approval != "" {
		said += " (" + fr.Planned.Approval + ")"
	} else if x.Message != "" {
		said += " (" + x.Message + ")"
	}
	return &messageForm{Meta: resourceForm{URI: fr.Planned.At}, Role: message.Tool, Content: said, Conversation: conversation.String(), Assistant: x.Agent, ID: in.ID}
}

// worker returns the caller, or an error if there is nobody to work.
func (f *Server) worker(ctx context.Context) (auth.Caller, error) {
	if f.Work == nil {
		return auth.Caller{}, fault.New(fault.Unsupported, "work_missing", "this Steward has no agents")
	}
	return auth.From(ctx)
}

// taskForm is a plan.Task.
type taskForm struct {
	Meta        resourceForm `json:"meta"`
	Subtasks    []*taskForm  `json:"subtasks,omitempty"`
	Assistant   string       `json:"assistant,omitzero"`
	Completed   bool         `json:"completed"`
	CompletedAt string       `json:"completed_at,omitzero"`
	Name        string       `json:"name"`
	State       plan.State   `json:"state"`
	Error       string       `json:"error,omitzero"`
	Verdict     string       `json:"verdict,omitzero"`
	Output      *messageForm `json:"output,omitzero"`
}

type listTasksRequest struct {
	URI   string       `json:"uri"`
	Limit int          `json:"limit"`
	After store.Cursor `json:"after"`
}

type listTasksResponse struct {
	Tasks []*taskForm  `json:"tasks,omitempty"`
	Next  store.Cursor `json:"next,omitzero"`
}

// maxTasks bounds a page of tasks, and is its size unless the caller says otherwise.
const maxTasks = plan.MaxTasks

// listTasks serves plan.Plan.ListTasks.
func (f *Server) listTasks(ctx context.Context, in *listTasksRequest) (out listTasksResponse, err error) {
	c, err := f.worker(ctx)
	if err != nil {
		return out, err
	}
	under, err := resource.Parse(in.URI)
	if err != nil {
		return out, err
	}
	if in.Limit <= 0 || in.Limit > maxTasks {
		in.Limit = maxTasks
	}
	tasks, next, err := f.Work.Tasks(ctx, c.User, under, in.After, in.Limit)
	out.Next = next
	forms := map[id.ID]*taskForm{}
	for _, t := range tasks {
		x := formOf(t)
		forms[t.ID] = x
		if above := forms[t.Parent]; above != nil {
			above.Subtasks = append(above.Subtasks, x)
		} else {
			out.Tasks = append(out.Tasks, x)
		}
	}
	return out, err
}

func formOf(t requests.PlannedTask) *taskForm {
	x := &taskForm{Meta: resourceForm{t.At, t.Metadata()}, Assistant: t.Assistant, Completed: t.State == plan.Done, Name: t.Name, State: t.State, Error: t.Error, Verdict: t.Verdict}
	if !t.CompletedAt.IsZero() {
		x.CompletedAt = t.CompletedAt.Format(time.RFC3339)
	}
	if o := t.Output; o.Summary != "" {
		x.Output = &messageForm{Role: message.Assistant, Content: o.Summary, Labels: o.Labels.Names()}
		if !o.Conversation.Zero() {
			x.Output.Conversation = o.Conversation.String()
		}
	}
	return x
}

type assistantForm struct {
	Path string       `json:"path"`
	Meta resourceForm `json:"meta"`
}

type listAssistantsResponse struct {
	Assistants []assistantForm `json:"assistants,omitempty"`
}

// listAssistants serves assistant.Assistant.ListAssistants.
func (f *Server) listAssistants(ctx context.Context, _ *struct{}) (out listAssistantsResponse, err error) {
	if _, err := f.worker(ctx); err != nil {
		return out, err
	}
	for _, a := range f.Work.Agents(ctx) {
		out.Assistants = append(out.Assistants, assistantForm{a.Path, resourceForm{URI: a.URI, Metadata: a.Metadata}})
	}
	return out, nil
}
