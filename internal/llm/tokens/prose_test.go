package tokens_test

// Texts in many languages and scripts, and other things that models are shown.
// The first group is the first article of the Universal Declaration of Human
// Rights.
type sample struct {
	name   string
	tokens int64
	text   string
}

func prose() []sample {
	return []sample{
		{"english", 33, "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood."},
		{"german", 44, "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen."},
		{"french", 50, "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité."},
		{"finnish", 68, "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä."},
		{"polish", 64, "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa."},
		{"turkish", 60, "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler."},
		{"vietnamese", 84, "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu."},
		{"russian", 74, "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства."},
		{"greek", 172, "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης."},
		{"hebrew", 129, "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה."},
		{"arabic", 88, "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا بروح الإخاء."},
		{"hindi", 180, "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।"},
		{"tamil", 137, "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள்."},
		{"thai", 135, "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ"},
		{"georgian", 144, "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით."},
		{"amharic", 104, "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።"},
		{"chinese", 50, "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"},
		{"japanese", 93, "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。"},
		{"korean", 85, "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다."},
		// A letter about a train that comes late, a market and the weather.
		{"spanish", 46, "El tren de la mañana llegó con cuarenta minutos de retraso, así que fuimos a pie hasta el mercado y compramos naranjas, aceitunas y un poco de queso para la cena."},
		{"portuguese", 51, "O comboio da manhã chegou com quarenta minutos de atraso; por isso fomos a pé até ao mercado e comprámos laranjas, azeitonas e um pouco de queijo para o jantar."},
		{"italian", 50, "Il treno del mattino è arrivato con quaranta minuti di ritardo, perciò siamo andati a piedi al mercato e abbiamo comprato arance, olive e un po' di formaggio per la cena."},
		{"dutch", 56, "De ochtendtrein kwam veertig minuten te laat aan, dus zijn we te voet naar de markt gegaan en hebben we sinaasappels, olijven en een stukje kaas voor het avondeten gekocht."},
		{"swedish", 51, "Morgontåget kom fyrtio minuter för sent, så vi gick till fots till torget och köpte apelsiner, oliver och en bit ost till kvällsmaten medan det började regna."},
		{"norwegian", 52, "Morgentoget kom førti minutter for sent, så vi gikk til fots til torget og kjøpte appelsiner, oliven og et stykke ost til kveldsmaten mens det begynte å regne."},
		{"czech", 75, "Ranní vlak přijel se čtyřicetiminutovým zpožděním, a tak jsme šli pěšky na trh a koupili pomeranče, olivy a kousek sýra k večeři, zatímco začalo pršet."},
		{"hungarian", 64, "A reggeli vonat negyven percet késett, ezért gyalog mentünk a piacra, és narancsot, olajbogyót meg egy kis sajtot vettünk vacsorára, miközben eleredt az eső."},
		{"romanian", 63, "Trenul de dimineață a ajuns cu patruzeci de minute întârziere, așa că am mers pe jos la piață și am cumpărat portocale, măsline și puțină brânză pentru cină."},
		{"lithuanian", 80, "Rytinis traukinys vėlavo keturiasdešimt minučių, todėl pėsčiomis nuėjome į turgų ir vakarienei nusipirkome apelsinų, alyvuogių ir truputį sūrio."},
		{"icelandic", 75, "Morgunlestin kom fjörutíu mínútum of seint, svo við gengum á markaðinn og keyptum appelsínur, ólífur og svolítinn ost fyrir kvöldmatinn á meðan það byrjaði að rigna."},
		{"irish", 61, "Tháinig traein na maidine daichead nóiméad mall, mar sin shiúlamar go dtí an margadh agus cheannaíomar oráistí, ológa agus píosa cáise don dinnéar."},
		{"indonesian", 61, "Kereta pagi datang terlambat empat puluh menit, jadi kami berjalan kaki ke pasar dan membeli jeruk, buah zaitun, dan sedikit keju untuk makan malam ketika hujan mulai turun."},
		{"swahili", 63, "Treni ya asubuhi ilichelewa kwa dakika arobaini, kwa hiyo tulitembea kwa miguu hadi sokoni tukanunua machungwa, zeituni na jibini kidogo kwa chakula cha jioni."},
		{"tagalog", 51, "Nahuli nang apatnapung minuto ang tren sa umaga, kaya naglakad kami papunta sa palengke at bumili ng dalandan, olibo at kaunting keso para sa hapunan."},
		{"yoruba", 97, "Ọkọ̀ ojú irin àárọ̀ pẹ́ ní ogójì ìṣẹ́jú, nítorí náà a fi ẹsẹ̀ rìn lọ sí ọjà, a sì ra ọsàn àti wàràkàṣì díẹ̀ fún oúnjẹ alẹ́."},
		{"ukrainian", 81, "Ранковий потяг запізнився на сорок хвилин, тому ми пішли пішки на ринок і купили апельсинів, оливок і трохи сиру на вечерю, поки починався дощ."},
		{"bulgarian", 72, "Сутрешният влак закъсня с четиридесет минути, затова отидохме пеша до пазара и купихме портокали, маслини и малко сирене за вечеря."},
		{"serbian", 74, "Јутарњи воз је каснио четрдесет минута, па смо пешке отишли на пијацу и купили поморанџе, маслине и мало сира за вечеру."},
		{"kazakh", 103, "Таңғы пойыз қырық минутқа кешікті, сондықтан біз базарға жаяу барып, кешкі асқа апельсин, зәйтүн және аздап ірімшік сатып алдық."},
		{"mongolian", 74, "Өглөөний галт тэрэг дөчин минут хоцорсон тул бид зах руу алхаж, оройн хоолонд жүрж, бяслаг худалдаж авлаа."},
		{"armenian", 217, "Առավոտյան գնացքը քառասուն րոպե ուշացավ, ուստի մենք ոտքով գնացինք շուկա և ընթրիքի համար նարինջ ու մի քիչ պանիր գնեցինք։"},
		{"persian", 72, "قطار صبح چهل دقیقه دیر رسید، برای همین پیاده به بازار رفتیم و برای شام پرتقال، زیتون و کمی پنیر خریدیم."},
		{"urdu", 102, "صبح کی ریل گاڑی چالیس منٹ دیر سے آئی، اس لیے ہم پیدل بازار گئے اور رات کے کھانے کے لیے مالٹے اور تھوڑا سا پنیر خریدا۔"},
		{"bengali", 127, "সকালের ট্রেন চল্লিশ মিনিট দেরিতে এসেছিল, তাই আমরা হেঁটে বাজারে গিয়ে রাতের খাবারের জন্য কমলা আর কিছু পনির কিনলাম।"},
		{"telugu", 201, "ఉదయం రైలు నలభై నిమిషాలు ఆలస్యంగా వచ్చింది, కాబట్టి మేము నడిచి మార్కెట్\u200cకు వెళ్లి రాత్రి భోజనానికి నారింజలు కొన్నాము."},
		{"malayalam", 168, "രാവിലത്തെ ട്രെയിൻ നാല്പത് മിനിറ്റ് വൈകി, അതിനാൽ ഞങ്ങൾ ചന്തയിലേക്ക് നടന്നുപോയി അത്താഴത്തിന് ഓറഞ്ച് വാങ്ങി."},
		{"sinhala", 179, "උදේ දුම්රිය විනාඩි හතළිහක් ප්\u200dරමාද විය, ඒ නිසා අපි පයින් වෙළඳපොළට ගොස් රෑ කෑමට දොඩම් මිලදී ගත්තෙමු."},
		{"burmese", 202, "မနက်ခင်းရထားက မိနစ်လေးဆယ် နောက်ကျတာကြောင့် ဈေးကို လမ်းလျှောက်သွားပြီး ညစာအတွက် လိမ္မော်သီးတွေ ဝယ်ခဲ့တယ်။"},
		{"khmer", 146, "រថភ្លើងពេលព្រឹកបានមកយឺតសែសិបនាទី ដូច្នេះយើងបានដើរទៅផ្សារ ហើយទិញក្រូចសម្រាប់អាហារពេលល្ងាច។"},
		{"lao", 161, "ລົດໄຟຕອນເຊົ້າມາຊ້າສີ່ສິບນາທີ ພວກເຮົາຈຶ່ງຍ່າງໄປຕະຫຼາດ ແລະ ຊື້ໝາກກ້ຽງສຳລັບຄ່ຳ."},
		{"tibetan", 178, "ཞོགས་པའི་མེ་འཁོར་སྐར་མ་བཞི་བཅུ་འཕྱིས་པས། ང་ཚོ་རྐང་ཐང་ལ་ཁྲོམ་ལ་ཕྱིན་ནས་ཚ་ལུ་མ་ཉོས་པ་ཡིན།"},
		{"traditional chinese", 70, "早上的火車晚了四十分鐘，所以我們步行去市場，買了橘子、橄欖和一點起司當晚餐，這時候開始下起雨來。"},
		{"polytonic greek", 84, "Ἐν ἀρχῇ ἦν ὁ λόγος, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν, καὶ θεὸς ἦν ὁ λόγος."},
	}
}

func notProse() []sample {
	return []sample{
		{"emoji", 49, "🎉🚀👩\u200d👩\u200d👧\u200d👦🏳️\u200d🌈❤️🔥🧑🏽\u200d💻"},
		{"compact", 86, "{\"id\":\"0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d\",\"role\":\"assistant\",\"at\":1763740000123456,\"blocks\":[{\"type\":\"tool_call\",\"call_id\":\"call_9aQx\",\"name\":\"math.multiply\",\"args\":\"{\\\"a\\\":6,\\\"b\\\":7}\"}]}"},
		{"digits", 40, "3.14159265358979323846264338327950288419716939937510 2026-11-21 15:24:52 1,234,567.89"},
		{"hex", 63, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a48810a325ca303eb3014c43ae004970f343634db176fa1697bcc8c9efac94626488d"},
		{"capitals", 28, "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG; SELECT NAME FROM CUSTOMERS WHERE COUNTRY_CODE = 'NL';"},
		{"signs", 28, "!@#$%^&*()_+-=[]{}|;':\",./<>? ~`\\ ->=> != <= && || ?? ::"},
		{"table", 34, "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 | 6 |\n"},
		{"math", 52, "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β = ¬(¬α ∨ β), ∑ᵢ aᵢ² ≤ ∞"},
		{"path", 20, "/usr/local/share/x86_64-linux-gnu/pkgconfig/libQt5XcbQpa.pc"},
	}
}
