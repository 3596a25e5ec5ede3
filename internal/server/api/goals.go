package api

import (
	"cmp"
	"context"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// effortRoutes are the routes of goals, or those of projects.
func (f *server) effortRoutes(kind, path string) []route {
	h := efforts{f, kind, path}
	return []route{
		on("GET "+path, h.list),
		created(on("POST "+path, h.add)),
		on("GET "+path+"/{id}", h.show),
		on("PATCH "+path+"/{id}", h.change),
		on("DELETE "+path+"/{id}", h.remove),
	}
}

// efforts serves the efforts of one kind.
type efforts struct {
	*server
	kind, path string
}

// effortNamed is the path parameter that names one of the caller's efforts, by its id, the beginning of
// that, its title, or words of it.
type effortNamed struct {
	ID string `path:"id"`
}

func (f *server) servesGoals() error {
	if f.Goals == nil {
		return fault.New(fault.Unsupported, "goals_unsupported", "goals and projects are not served here")
	}
	return nil
}

// by says who makes a change. What a program asks for may come from anywhere.
func by(c *call) record.EffortAuthor {
	if c.Attended() {
		return record.EffortAuthor{Call: id.New(), Actor: "user"}
	}
	return record.EffortAuthor{Call: id.New(), Actor: "program", Labels: message.Private | message.Untrusted}
}

func (h efforts) list(ctx context.Context, c *call, in struct {
	Status string `query:"status"`
}) (map[string][]client.Effort, error) {
	if err := h.servesGoals(); err != nil {
		return nil, err
	}
	list, err := h.Goals.List(ctx, c.User, h.kind, in.Status)
	if err != nil {
		return nil, err
	}
	out, _, err := h.Goals.Views(ctx, c.User, list)
	return the(h.path[1:], out), err
}

func (h efforts) add(ctx context.Context, c *call, in struct {
	Body client.EffortChange `body:""`
}) (client.Effort, error) {
	if err := h.servesGoals(); err != nil {
		return client.Effort{}, err
	}
	return h.viewed(ctx)(h.Goals.Create(ctx, c.User, h.kind, in.Body, by(c)))
}

func (h efforts) show(ctx context.Context, c *call, in effortNamed) (client.Effort, error) {
	if err := h.servesGoals(); err != nil {
		return client.Effort{}, err
	}
	return h.viewed(ctx)(h.Goals.Get(ctx, c.User, h.kind, in.ID))
}

func (h efforts) change(ctx context.Context, c *call, in struct {
	effortNamed
	Body client.EffortChange `body:""`
}) (client.Effort, error) {
	if err := h.servesGoals(); err != nil {
		return client.Effort{}, err
	}
	return h.viewed(ctx)(h.Goals.Change(ctx, c.User, h.kind, in.ID, in.Body, by(c)))
}

func (h efforts) remove(ctx context.Context, c *call, in effortNamed) (noContent, error) {
	if err := h.servesGoals(); err != nil {
		return noContent{}, err
	}
	_, err := h.Goals.Remove(ctx, c.User, h.kind, in.ID)
	return noContent{}, err
}

// viewed returns a function that shows an effort unless there is an error.
func (h efforts) viewed(ctx context.Context) func(record.Effort, error) (client.Effort, error) {
	return func(e record.Effort, err error) (client.Effort, error) {
		if err != nil {
			return client.Effort{}, err
		}
		v, _, err := h.Goals.View(ctx, e)
		return v, err
	}
}

// goalChanges says what has become of the caller's goals and projects in the last days (7 unless given).
func (f *server) goalChanges(ctx context.Context, c *call, in struct {
	Days int `query:"days" range:"1,366"`
}) (client.EffortChanges, error) {
	if err := f.servesGoals(); err != nil {
		return client.EffortChanges{}, err
	}
	out, _, err := f.Goals.Changes(ctx, c.User, time.Now().AddDate(0, 0, -cmp.Or(in.Days, 7)))
	return out, err
}
