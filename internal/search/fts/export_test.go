package fts

// Followed makes the index behave as if Follow ran.
func (x *Index) Followed(on bool) { x.followed.Store(on) }
