package apis

import (
	"strings"
	"testing"
)

func TestCheckGemini(t *testing.T) {
	const hi = `{"role":"user","parts":[{"text":"hi"}]}`
	const call = `{"functionCall":{"name":"a","args":{}}}`
	const res = `{"functionResponse":{"name":"a","response":{}}}`
	contents := func(list ...string) string { return `{"contents":[` + strings.Join(list, ",") + `]}` }
	model := func(parts string) string { return `{"role":"model","parts":[` + parts + `]}` }
	user := func(parts string) string { return `{"role":"user","parts":[` + parts + `]}` }
	with := func(members string) string { return `{"contents":[` + hi + `],` + members + `}` }
	for body, want := range map[string]string{
		contents(hi): "",
		contents(hi, model(call+`,`+call), user(res+`,`+res), hi): "",
		with(`"systemInstruction":{"parts":[{"text":"x"}]}`):      "",
		with(`"tools":[{"functionDeclarations":[{"name":"a","description":""}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}`): "",
		with(`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"$ref":"#","$x":1}}}}`):              "",
		`{"requests":[{"model":"models/e","content":{"parts":[{"text":""}]}}]}`:                                                                                       "",

		`{`:                                 "unexpected EOF",
		contents():                          "not specified",
		with(`"seedling":1`):                "seed",
		contents(model(`{"text":"x"}`), hi): "begin and end",
		contents(hi, model(`{"text":"x"}`)): "begin and end",
		contents(hi, `{"role":"system","parts":[]}`, hi):                                    "role",
		contents(`{"role":"user","parts":[]}`):                                              "no parts",
		contents(user(`{"text":""}`)):                                                       "empty text",
		contents(user(`{}`)):                                                                "oneof",
		contents(user(`{"text":"a","fileData":{"fileUri":"x"}}`)):                           "oneof",
		contents(user(call)):                                                                "only a model",
		contents(user(`{"text":"a","thoughtSignature":"AAAA"}`)):                            "only a model",
		contents(hi, model(res), hi):                                                        "response in a turn",
		contents(user(`{"inlineData":{"mimeType":"application/zip","data":"AAAA"}}`)):       "unsupported inline",
		contents(user(`{"inlineData":{"mimeType":"image/png","data":""}}`)):                 "unsupported inline",
		contents(user(`{"inlineData":{"mimeType":"image/png","data":"?"}}`)):                "base64",
		contents(user(`{"fileData":{"fileUri":""}}`)):                                       "unsupported file",
		contents(hi, model(call), hi):                                                       "function responses",
		contents(hi, model(call), user(res+`,`+res)):                                        "function responses",
		contents(hi, model(call), user(res+`,{"text":"x"}`)):                                "function responses",
		contents(hi, user(res)):                                                             "function responses",
		contents(hi, model(`{"text":"x"}`), model(call), user(res)):                         "immediately after",
		contents(hi, model(`{"functionCall":{"name":"b","args":{}}}`), user(res)):           "answer the calls",
		contents(hi, model(`{"functionCall":{"id":"1","name":"a","args":{}}}`), user(res)):  "answer the calls",
		contents(hi, model(`{"functionCall":{"name":"a b","args":{}}}`), user(res)):         "a name of letters",
		contents(hi, model(`{"functionCall":{"name":"a","args":"x"}}`), user(res)):          "an object",
		contents(hi, model(call), user(`{"functionResponse":{"name":"a","response":"x"}}`)): "an object",
		contents(hi, model(call), user(`{"functionResponse":{"name":"a","response":{},"parts":[{"inlineData":{"mimeType":"image/gif","data":"AA=="}}]}}`)): "takes png",
		with(`"systemInstruction":{"parts":[]}`):                                                           "no text",
		with(`"tools":[{}]`):                                                                               "without function declarations",
		with(`"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"}]}]`):                             "twice",
		with(`"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":[]}]}]`):                "no object",
		with(`"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"string"}}]}]`): "not that of an object",
		with(`"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":"object","anyOf":[{"$ref":"#","type":"object"}]}}]}]`):     "beside a $ref",
		with(`"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`):                                                                                 "without function declarations",
		with(`"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"any"}}`):                               "mode",
		with(`"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["a"]}}`): "only when",
		with(`"tools":[{"functionDeclarations":[{"name":"a"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["b"]}}`):  "not declared",
		with(`"generationConfig":{"temperature":2.1}`):                                                                                                "range",
		with(`"generationConfig":{"maxOutputTokens":0}`):                                                                                              "positive",
		with(`"generationConfig":{"stopSequences":["1","2","3","4","5","6"]}`):                                                                        "at most 5",
		with(`"generationConfig":{"responseMimeType":"text/html"}`):                                                                                   "response_mime_type",
		with(`"generationConfig":{"responseJsonSchema":{"type":"object"}}`):                                                                           "mime type",
		with(`"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":7}`):                                                     "no object",
		with(`"generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinkingLevel":"LOW"}}`):                                                      "together",
		with(`"generationConfig":{"thinkingConfig":{"thinkingBudget":-2}}`):                                                                           "out of range",
		with(`"generationConfig":{"thinkingConfig":{"thinkingLevel":"some"}}`):                                                                        "thinking level",
		`{"requests":[]}`: "a batch of 0",
		`{"requests":[{"model":"e","content":{"parts":[{"text":""}]}}]}`: "models/NAME",
		`{"requests":[{"model":"models/e","content":{"parts":[]}}]}`:     "without parts",
	} {
		refuses(t, CheckGemini, body, want)
	}
}

func TestCheckGemini3(t *testing.T) {
	turn := func(signature string) string {
		return `{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}` + signature + `},{"functionCall":{"name":"b","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}},{"functionResponse":{"name":"b","response":{}}}]}`
	}
	const hi, sig = `{"role":"user","parts":[{"text":"hi"}]}`, `,"thoughtSignature":"AAAA"`
	for body, want := range map[string]string{
		hi + `,` + turn(sig) + `,` + turn(sig):    "",
		hi + `,` + turn("") + `,` + hi:            "", // an earlier turn is not validated
		hi + `,` + turn(sig) + `,` + turn(""):     "3. content block is missing",
		hi + `,` + turn("") + `,` + turn(sig):     "1. content block is missing",
		hi + `,{"role":"model","parts":[]},` + hi: "no parts",
	} {
		refuses(t, CheckGemini3, `{"contents":[`+body+`]}`, want)
	}
}
