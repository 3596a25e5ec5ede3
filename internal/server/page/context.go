package page

import (
	"strconv"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
)

// contextScreen shows what the next model call of a conversation reads, and why each piece of it is there.
func (v *visit) contextScreen() (content, error) {
	which := v.r.PathValue("conversation")
	conv, err := v.api().Conversation(v.ctx(), which)
	if err != nil {
		return content{}, err
	}
	c, err := v.api().Context(v.ctx(), conv.ID)
	if err != nil {
		return content{}, err
	}
	return content{title: v.t("What the model reads"), nav: "chat", main: Div(
		head(v.t("What the model reads"), A(Class("button"), Href("/chat/"+conv.ID), v.icon("left"), g.Text(v.t("Back to the conversation")))),
		P(ownText(named(conv.Title, v.t("New conversation"))), Span(Class("quiet"), g.Text(" · "+c.Agent+" · "+c.Model))),
		P(v.contextSum(&c)),
		g.If(c.Full, P(Class("label"), v.icon("warn"), g.Text(v.t("The window is full. The next call first makes room: it leaves out old results, and sums up old messages.")))),
		v.contextBar(&c),
		Div(Class("parts"), g.Map(c.Categories, func(k client.ContextCategory) g.Node { return v.contextCategory(&c, &k) })))}, nil
}

func (v *visit) contextSum(c *client.Context) g.Node {
	if c.Window == 0 {
		return g.Text(v.t("The next call sends about {n} tokens. How large the window of this model is, is unknown.", count(c.Tokens)))
	}
	return g.Text(v.t("The next call sends about {n} of {all} tokens. {free} are free.", count(c.Tokens), count(c.Window), count(c.Free)))
}

// contextBar shows the shares of the categories. What is not used is the background.
func (v *visit) contextBar(c *client.Context) g.Node {
	var used int64
	for _, k := range c.Categories {
		used += k.Tokens
	}
	all := c.Window
	var small g.Node
	if all == 0 || used < all/4 { // in a large window, the shares could not be told apart
		all, small = used, P(Class("quiet"), g.Text(v.t("The bar shows the shares of what is used.")))
	}
	var parts g.Group
	x := 0.0
	label := ""
	for _, k := range c.Categories {
		wide := 1000 * float64(k.Tokens) / float64(max(all, 1))
		wide = min(wide, 1000-x)
		parts = append(parts, g.El("rect", Class("part-"+k.Name), g.Attr("x", strconv.FormatFloat(x, 'f', 2, 64)), Height("30"), Width(strconv.FormatFloat(wide, 'f', 2, 64)), g.El("title", g.Text(v.contextName(k.Name)+": "+count(k.Tokens)))))
		x += wide
		label += v.contextName(k.Name) + " " + count(k.Tokens) + ", "
	}
	return g.Group{SVG(ID("context"), g.Attr("viewBox", "0 0 1000 30"), g.Attr("preserveAspectRatio", "none"), Role("img"), Aria("label", label+v.t("free")+" "+count(c.Free)), parts), small}
}

func (v *visit) contextName(s string) string {
	switch s {
	case client.ContextSystem:
		return v.t("Instructions of the agent")
	case client.ContextProfile:
		return v.t("About you")
	case client.ContextFacts:
		return v.t("Facts")
	case client.ContextPassages:
		return v.t("Passages that were found")
	case client.ContextTools:
		return v.t("Tools")
	case client.ContextMessages:
		return v.t("Messages")
	case client.ContextAnswer:
		return v.t("Reserved for the answer")
	}
	return s
}

// contextShown bounds the pieces of a category that are shown.
const contextShown = 300

func (v *visit) contextCategory(c *client.Context, k *client.ContextCategory) g.Node {
	var pieces []client.ContextPiece
	for _, p := range c.Pieces {
		if p.Category == k.Name {
			pieces = append(pieces, p)
		}
	}
	most := ""
	if k.Most > 0 {
		most = v.t("at most {n}", count(k.Most))
		if k.Each {
			most = v.t("at most {n} for each turn", count(k.Most))
		}
	}
	title := g.Group{Span(Class("swatch part-" + k.Name)), Span(Class("grow"), g.Text(v.contextName(k.Name))), Span(Class("figure"), g.Text(v.t("{n} tokens", count(k.Tokens)))), g.If(most != "", Span(Class("state"), g.Text(most)))}
	if len(pieces) == 0 {
		return Div(ID("part-"+k.Name), Class("fold row"), title)
	}
	return Details(ID("part-"+k.Name), Class("fold"), Summary(Class("row"), title),
		Div(Class("scroll-x"), TabIndex("0"), Role("region"), Aria("label", v.contextName(k.Name)), Table(Class("pieces"), THead(Tr(Th(g.Text(v.t("What"))), Th(g.Text(v.t("Why?"))), Th(g.Text(v.t("Tokens"))))),
			TBody(g.Map(pieces[:min(contextShown, len(pieces))], func(p client.ContextPiece) g.Node {
				return Tr(Td(ownText(p.Name), g.If(p.Count > 1, Span(Class("state"), g.Text(" × "+strconv.Itoa(p.Count))))), Td(ownText(p.Why)), Td(Class("figure"), g.Text(count(p.Tokens))))
			})))))
}
