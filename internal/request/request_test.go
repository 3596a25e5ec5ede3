package request_test

import (
	"context"
	"reflect"
	"testing"

	"steward/internal/id"
	"steward/internal/request"
	"steward/internal/resource"
)

func TestContext(t *testing.T) {
	if _, ok := request.From(context.Background()); ok {
		t.Error("a request from nowhere")
	}
	c := request.Context{ID: id.New(), User: "ann", Actor: "ann", Conversation: resource.Root("common.Conversation", "1"), Attended: true}
	ctx := request.With(context.Background(), c)
	if got, ok := request.From(ctx); !ok || !reflect.DeepEqual(got, c) {
		t.Errorf("From = %#v, %v", got, ok)
	}
	inner := request.With(ctx, c.Child("agent:helper"))
	if got, _ := request.From(inner); got.Parent != c.ID {
		t.Errorf("the inner request: %#v", got)
	}
	if got, _ := request.From(ctx); !reflect.DeepEqual(got, c) {
		t.Errorf("the outer request has changed: %#v", got)
	}
}

func TestChild(t *testing.T) {
	c := request.Context{ID: id.New(), User: "ann", Actor: "ann", Conversation: resource.Root("common.Conversation", "1"), Attended: true}
	child := c.Child("agent:helper")
	if child.ID == c.ID || child.ID.Zero() || child.Parent != c.ID || child.Actor != "agent:helper" {
		t.Errorf("the child: %#v", child)
	}
	if child.User != c.User || child.Conversation != c.Conversation || !child.Attended {
		t.Errorf("what a child inherits: %#v", child)
	}
	if !c.Parent.Zero() || c.Actor != "ann" {
		t.Errorf("the parent has changed: %#v", c)
	}
	if grand := child.Child("x"); grand.Parent != child.ID || grand.ID == child.ID {
		t.Errorf("the grandchild: %#v", grand)
	}
}
