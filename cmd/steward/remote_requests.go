package main

import (
	"steward/internal/message"
	"steward/internal/runtime"
)

// task reads how far a task is.
func (f *frame) task() *runtime.TaskView {
	v := &runtime.TaskView{ID: parseID(f.ID), Call: f.Call, Tool: f.Tool, Status: f.Status, Message: f.Say, Fraction: f.Progress}
	if a := f.Approval; a != nil {
		v.Approval = a.view()
		v.Approval.Tool, v.Approval.Args = f.Tool, string(f.Args)
	}
	return v
}

// opened reads what a turn was opened with by a tool or an agent.
func (f *frame) opened() *message.Message {
	m := &message.Message{ID: parseID(f.Message), Role: message.User, Blocks: blocks(f.Content)}
	for _, b := range m.Blocks {
		b.Base().Origin = f.Origin
	}
	return m
}
