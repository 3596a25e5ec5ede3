package offline

import (
	_ "embed"
	"strings"
)

// The tables of this file are read only. They hold general language: words
// that say nothing about a subject, verbs and nouns that people use for one
// another, and pairs that exclude each other.

// words makes a set of a text's words.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// stopwords carry no subject.
var stopwords = words(`a an the some any this that these those it its itself there here
 i me my mine myself we us our ours you your yours he him his she her hers they them their
 is are was were be been being am do does did has have had having will would shall should can could may might must
 what which who whom whose when where why how whats
 and or but if so as than then too also just only not no nor
 of in on at to from for with by about into onto over under between through via per
 please thanks thank ok okay well now right really very quite maybe
 s ll m re d ve t want wanna like need let lets try kindly gonna got go going
 one ones thing things something stuff way bit lot kind sort
 steward would mind able possible next after before again already still currently
 afterwards finally first second because since while wants needs wanted needed gets due`)

// foreign are the function words of German, French and Spanish, by language.
var foreign = []map[string]bool{
	words(`der die das den dem des ein eine einen einem einer eines und oder aber ist sind war bin wie was wer wo wann warum
 ich du er sie es wir ihr mich mir dich dir uns euch mein meine meinen meinem dein deine bitte danke kannst könntest soll
 von nach zu zum zur für mit bei im am um aus auf über unter zwischen dann danach auch noch nicht kein keine mal`),
	words(`le la les un une des du de et ou mais est sont suis ce cette ces je tu il elle nous vous ils mon ma mes ton ta
 tes son sa ses moi toi quel quelle quels quelles qui que quoi où quand comment pourquoi à au aux pour avec dans sur sous
 chez vers depuis puis ensuite aussi pas ne merci plaît veux peux`),
	words(`el la los las un una unos unas y o pero es son soy está este esta estos yo tú él ella nosotros me te se mi mis tu tus su
 sus qué quién cuál cuándo dónde cómo por para con en de del al a desde hasta sobre entre luego después también no favor gracias
 quiero puedes puede`),
}

// weak are verbs so general that they hardly tell one tool from another.
var weak = stems(`get show give tell display view see look find make do take put set use run check know say have keep
 create add new update change list fetch return provide handle let be go ask want need
 current latest new existing recent actual status detail details info information content contents calculate compute evaluate determine zeige gib sage mach donne montre dis dame muestra dime`)

// prepositions, by language, with the English one that stands for each.
var prepositions = map[string]string{
	"from": "from", "to": "to", "for": "for", "in": "in", "on": "on", "at": "at", "with": "with", "by": "by",
	"about": "about", "into": "into", "onto": "on", "of": "of", "as": "as", "under": "under", "over": "over",
	"between": "between", "until": "until", "till": "until", "til": "until", "since": "since", "after": "after",
	"before": "before", "within": "within", "without": "without", "using": "with", "via": "by", "through": "by",
	"called": "called", "named": "called", "titled": "called", "entitled": "called", "labelled": "called", "labeled": "called",
	"near": "near", "around": "near", "inside": "in", "per": "per", "above": "over", "below": "under", "against": "against",
	"towards": "to", "toward": "to", "regarding": "about", "concerning": "about", "than": "than", "behind": "behind",
	"because": "because", "starting": "since", "ending": "until", "through-to": "until", "worth": "of", "during": "in", "off": "off", "like": "like",
}

var foreignPrepositions = []map[string]string{
	{"von": "from", "vom": "from", "aus": "from", "nach": "to", "zu": "to", "zum": "to", "zur": "to", "für": "for", "in": "in", "im": "in",
		"auf": "on", "am": "on", "an": "to", "um": "at", "bei": "at", "mit": "with", "über": "about", "bis": "until", "namens": "called",
		"ohne": "without", "zwischen": "between", "seit": "since", "ab": "since", "vor": "before", "durch": "by", "unter": "under", "als": "as"},
	{"de": "from", "depuis": "from", "à": "to", "au": "to", "aux": "to", "vers": "to", "pour": "for", "dans": "in", "en": "in", "sur": "on",
		"avec": "with", "par": "by", "chez": "at", "jusqu": "until", "entre": "between", "sans": "without", "nommé": "called", "appelée": "called",
		"appelé": "called", "avant": "before", "après": "after", "sous": "under", "du": "of", "des": "of"},
	{"de": "of", "desde": "from", "a": "to", "al": "to", "hasta": "until", "para": "for", "en": "in", "sobre": "about", "con": "with",
		"por": "by", "entre": "between", "sin": "without", "llamado": "called", "llamada": "called", "antes": "before", "bajo": "under", "del": "of"},
}

// determiners and other words that may open a noun phrase without being part
// of the name that it holds.
var determiners = words(`a an the my our your his her their this that these those some any all every each new another
 der die das den dem des ein eine einen einem einer mein meine meinen meinem le la les un une mon ma mes l el los las una mi mis
 please just only another also`)

// fillers never belong to a value's end.
var fillers = words(`please thanks thank now too also again instead bitte danke merci gracias then first there here right
 today's say mean look asap immediately quickly afterwards me us you myself i we is are was were do does did have has had be been will would can could should`)

// connectives join wishes; "then" ones also put them in order.
var connectives = words(`and then also plus & afterwards und dann danach außerdem et puis ensuite y luego después e`)

var sequencers = words(`then afterwards dann danach anschließend puis ensuite luego después finally`)

//go:embed synonyms.txt
var synonymTable string

//go:embed implied.txt
var impliedTable string

// concepts are groups of words that people use for one another when they ask
// for something. A word may stand in several.
var concepts = parseConcepts(synonymTable)

// opposites exclude each other: a tool that names one side is not meant by
// the other.
var opposites = parsePairs(`on off|start stop|open close|add remove|add delete|create delete|create cancel|increase decrease|raise lower
 lock unlock|enable disable|activate deactivate|up down|subscribe unsubscribe|accept reject|approve reject|accept decline|buy sell|send receive|mute unmute
 import export|encrypt decrypt|encode decode|upload download|show hide|arm disarm|pause resume|borrow return|join leave
 start end|begin end|deposit withdraw|attach detach|connect disconnect|mount unmount|pin unpin|follow unfollow|like unlike
 block unblock|archive restore|compress extract|assign unassign|freeze unfreeze|start pause|stop resume|open shut|create list|delete list|add list
 multiply divide|add subtract|add multiply|add divide|subtract multiply|subtract divide|hire fire|heat cool|load unload|install uninstall|check-in check-out|first last`)

// verbs that open a wish, besides those that the tools' own names bring.
var verbs = stems(`get show give tell display view see look fetch retrieve read search find locate list check verify create add make
 insert register generate build put set write open compose delete remove erase clear drop cancel update change modify edit adjust
 increase raise boost decrease lower reduce dim send deliver post submit forward message text notify start begin launch run activate
 enable stop end halt deactivate disable finish pause suspend resume continue close shut lock unlock buy purchase order book reserve
 schedule arrange remind pay transfer move copy duplicate convert calculate compute multiply subtract divide assign rate review play
 rename share invite save store keep remember record log translate summarize turn switch mark call email mail print upload download research investigate
 wake mute define explain describe compare sort filter merge split pick choose roll flip count round hash encrypt decrypt ask let water
 file hand bring pour dispense prolong extend heat cook bake warm cool refund hire fire drive navigate guide teach highlight restock reorder
 relocate collect drop dispatch deploy restart reboot reset revert undo redo approve reject accept decline confirm deny grant revoke
 reassign escalate resolve reopen tag label pin star like follow unfollow block unblock ban join leave enter exit attach detach connect
 disconnect pair sync upgrade downgrade test visit invoice bill wire withdraw deposit invest trade import export encode decode compress
 extract crop resize rotate zoom scan park fly land hover dock steer brake accelerate open lift push pull press hold release shut flush
 summon hail deliver serve prepare mix brew grind slice weigh dispose recycle donate raise sign enroll register apply vote rank rate
 score grade sketch render animate dub mute unmute wish greet invite introduce present publish unpublish post tweet comment quote cite
 bookmark favorite unlist backup mount unmount format partition ping trace route forward redirect whitelist blacklist monitor watch
 observe inspect audit survey poll sample feed plant charge fill empty clean wash ship pack return renew lend borrow subscribe unsubscribe archive restore download install
 draw measure estimate predict plan have track follow report complete tick skip repeat shuffle fetch reply answer say use take bring tune
 zeige lösche erstelle sende schicke multipliziere addiere teile dividiere schalte suche finde erinnere berechne sage gib
 envoie affiche montre supprime crée multiplie calcule cherche rappelle dis donne envía muestra borra elimina crea multiplica calcula busca dime`)

// openers begin a question, and with it a wish.
var openers = words(`what what's whats which who whose when where why how is are has have had was were do does did can could will would should
 i was wie wer wo wann welche welcher welches quel quelle quels quand où comment combien qué cuál cuándo dónde cómo cuánto`)

// particles belong to the verb that they follow.
var particles = words(`on off up down out away back`)

// implied are words that, said, may mean others, though not the other way round.
var implied = parseImplied(impliedTable)

func parseImplied(text string) map[string][]string {
	of := map[string][]string{}
	for line := range strings.Lines(text) {
		said, meant, _ := strings.Cut(line, ":")
		for _, w := range strings.Fields(said) {
			for _, m := range strings.Fields(meant) {
				of[stem(w)] = append(of[stem(w)], stem(m))
			}
		}
	}
	return of
}

func stems(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[stem(w)] = true
	}
	return set
}

func parseConcepts(text string) map[string][]int32 {
	of := map[string][]int32{}
	n := int32(0)
	for line := range strings.Lines(text) {
		for _, w := range strings.Fields(line) {
			if s := stem(w); len(of[s]) == 0 || of[s][len(of[s])-1] != n {
				of[s] = append(of[s], n)
			}
		}
		n++
	}
	return of
}

func parsePairs(text string) map[string][]string {
	of := map[string][]string{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == '|' || r == '\n' }) {
		if f := strings.Fields(pair); len(f) == 2 {
			a, b := stem(f[0]), stem(f[1])
			of[a], of[b] = append(of[a], b), append(of[b], a)
		}
	}
	return of
}
