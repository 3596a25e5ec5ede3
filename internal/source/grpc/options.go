package grpc

import (
	_ "embed"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"steward/internal/tool"
)

// optionsFile is the import path of Steward's options.
const optionsFile = "steward/options.proto"

//go:embed options.proto
var optionsText []byte

// optionTidy is the number of the option in options.proto.
const optionTidy = 53170

// declaredTidy reads from a method's options which earlier results its calls make obsolete.
// Malformed options are ignored.
func declaredTidy(m protoreflect.MethodDescriptor) (out []tool.StrategyDecl) {
	eachField(m.Options().ProtoReflect().GetUnknown(), func(n protowire.Number, value []byte) {
		if n != optionTidy {
			return
		}
		var d tool.StrategyDecl
		eachField(value, func(n protowire.Number, value []byte) {
			text := string(value)
			switch n {
			case 1:
				d.By = text
			case 2:
				d.Parameters = append(d.Parameters, text)
			case 3:
				d.Tools = append(d.Tools, text)
			case 4:
				d.MaxAge = text
			case 5:
				d.Cascade = append(d.Cascade, text)
			}
		})
		out = append(out, d)
	})
	return out
}

// eachField calls do for each length-delimited field of a message, up to the first malformed one.
func eachField(b []byte, do func(n protowire.Number, value []byte)) {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(n, typ, b); size < 0 {
			return
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			do(n, value)
		}
		b = b[size:]
	}
}
