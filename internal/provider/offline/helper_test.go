package offline_test

import "encoding/json"

func decodeObject(raw []byte) map[string]any {
	var v map[string]any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}
