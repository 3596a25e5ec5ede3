package sqlite

import (
	_ "embed"

	"github.com/klauspost/compress/zstd"

	"steward/internal/resource"
)

// Flags in log.op, beside the operation. Existing databases contain these
// numbers.
const (
	opMask = 0x0f
	packed = 0x10 // the body is a zstd frame
	apart  = 0x20 // and is stored in the table pack, under the number in log.body
)

// Limits of what is worth packing.
const (
	minPack = 64       // bytes; below, a frame's header outweighs the gain
	maxPack = 64 << 20 // bytes; above, packing would need too much memory
	// aloneRow is the size in bytes of key and body from which a row may not fit
	// on its page as a whole: 4,061 bytes fit, of which the other columns take
	// less than 192.
	aloneRow = 4061 - 192
)

// The dictionary has the words of typical bodies, so that packing pays for short
// bodies too. It is part of the storage format: never change it, but add another
// one with another number.
//
//go:embed dictionaries/001.txt
var dictionary1 []byte

const dictionaryID1 = 1

// codec packs and unpacks bodies. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// newCodec returns a codec that unpacks up to limit bytes. It starts no
// goroutines, so it need not be closed.
func newCodec(limit uint64) (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithAllLitEntropyCompression(true), // recovers the overhead of base64 images
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10), zstd.WithSingleSegment(true),
		zstd.WithEncoderCRC(false), zstd.WithEncoderDictRaw(dictionaryID1, dictionary1))
	if err != nil {
		return nil, err
	}
	// The limit on memory also limits the output: a frame that claims or produces
	// more is refused.
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(limit), zstd.WithDecoderDictRaw(dictionaryID1, dictionary1))
	if err != nil {
		return nil, err
	}
	return &codec{enc, dec}, nil
}

// pack returns the frame of a body, or nil if that would save less than a tenth.
func (c *codec) pack(body []byte) []byte {
	if len(body) < minPack || len(body) > maxPack {
		return nil
	}
	frame := c.enc.EncodeAll(body, make([]byte, 0, len(body)/2))
	if len(frame) > len(body)-len(body)/10 {
		return nil
	}
	return frame
}

// unpack returns the body of a frame. The frame may be in SQLite's memory.
func (c *codec) unpack(frame []byte) ([]byte, error) { return c.dec.DecodeAll(frame, nil) }

// eachUnpacked calls do for each version of a resource, newest first, that has an
// unpacked body, with the length of its key. It stops at a packed version, since
// the versions before it were considered when it was packed, and at an erasure.
// The body is valid until do returns.
func eachUnpacked(c *conn, seq int64, do func(seq int64, key int, body []byte) error) error {
	st := c.prepare("SELECT op, prev, length(key), body FROM log WHERE seq = ?")
	defer st.reset()
	for seq != 0 {
		ok, err := st.argInt(seq).step()
		if err != nil || !ok {
			return err
		}
		op, prev := st.int(0), st.int(1)
		if op&packed != 0 || op == int64(resource.OpErase) {
			return nil
		}
		if body := st.view(3); body != nil {
			if err := do(seq, int(st.int(2)), body); err != nil {
				return err
			}
		}
		st.reset()
		seq = prev
	}
	return nil
}

// packAll packs the bodies of the resources that the group asks to pack. It runs
// after the group's own entries are written, since they may be among them.
func (p *planner) packAll() error {
	for _, newest := range p.packs {
		err := eachUnpacked(p.c, int64(newest), func(seq int64, key int, body []byte) error {
			k, err := p.s.codec()
			if err != nil {
				return err
			}
			frame := k.pack(body)
			if frame == nil {
				return nil
			}
			return p.replaceBody(seq, frame, key+len(body) > aloneRow)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	packRow   = "UPDATE log SET op = op | ?, body = ? WHERE seq = ?"
	packApart = "INSERT INTO pack (body) VALUES (?) RETURNING id"
)

func (p *planner) replaceBody(seq int64, frame []byte, away bool) error {
	s := p.c.prepare(packRow)
	if !away {
		return s.argInt(packed).argBlob(frame).argInt(seq).run()
	}
	id, err := p.c.prepare(packApart).argBlob(frame).number()
	if err != nil {
		return err
	}
	return s.argInt(packed|apart, id, seq).run()
}
