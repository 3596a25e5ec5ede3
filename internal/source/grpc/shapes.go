package grpc

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// shapes knows which messages contain themselves, and how many fields they have when written out.
// It is filled on demand. Not safe for concurrent use.
type shapes struct {
	known map[protoreflect.FullName]*shape
	stack []*shape
	next  int
}

// shape describes a message. Groups of messages that contain each other are found by Tarjan's
// algorithm.
type shape struct {
	index, low int
	open       bool // its group is not complete yet
	recursive  bool
	fields     int // of the message and all below it, saturated; those below a recursion do not count
}

const maxFields = 1 << 20

func (s *shapes) recursive(md protoreflect.MessageDescriptor) bool { return s.of(md).recursive }
func (s *shapes) fields(md protoreflect.MessageDescriptor) int     { return s.of(md).fields }

func (s *shapes) of(md protoreflect.MessageDescriptor) *shape {
	if have, ok := s.known[md.FullName()]; ok {
		return have
	}
	if s.known == nil {
		s.known = map[protoreflect.FullName]*shape{}
	}
	s.next++
	own := &shape{index: s.next, low: s.next, open: true}
	s.known[md.FullName()] = own
	s.stack = append(s.stack, own)
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		own.fields = min(own.fields+1, maxFields)
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		sub := fd.Message()
		if sub == nil || sub.IsPlaceholder() || special(sub) != nil {
			continue
		}
		before := len(s.known)
		child := s.of(sub)
		if fresh := len(s.known) > before; fresh && child.open {
			own.low = min(own.low, child.low)
		} else if child.open {
			own.low = min(own.low, child.index)
		}
		if child == own {
			own.recursive = true
		}
		own.fields = min(own.fields+child.fields, maxFields)
	}
	if own.low == own.index {
		s.closeGroup(own)
	}
	return own
}

// closeGroup takes a complete group from the stack.
func (s *shapes) closeGroup(first *shape) {
	for i := len(s.stack) - 1; ; i-- {
		member := s.stack[i]
		member.open = false
		if member != first || i < len(s.stack)-1 {
			member.recursive = true
		}
		if member == first {
			s.stack = s.stack[:i]
			return
		}
	}
}

func deprecated(fd protoreflect.FieldDescriptor) bool {
	opts, _ := fd.Options().(*descriptorpb.FieldOptions)
	return opts.GetDeprecated()
}
