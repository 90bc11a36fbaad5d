"""Thirty everyday sentences, each with translations that a teacher would accept. Written by hand.

A template stands for many sentences: "Je suis (fatigué|fatiguée)." is two, "(|Et )toi ?" one with "Et" and one without.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

# English: (French templates, Chinese templates)
SENTENCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Good morning.": (
        ("Bonjour.", "Bon matin.", "Bonne matinée."),
        ("(早|早安|早上好)。", "(大家|你|您)(早|早上好)。", "早上好(啊|呀)。"),
    ),
    "How are you?": (
        (
            "Comment (vas-tu|ça va|allez-vous|tu vas|vous allez|te portes-tu|vous portez-vous|es-tu|êtes-vous)(| aujourd'hui) ?",
            "(Ça va|Tu vas bien|Vous allez bien|Vas-tu bien|Allez-vous bien|Est-ce que ça va) ?",
        ),
        (
            "(你|您)(|最近|过得|近来)(好吗|怎么样|怎样|如何|还好吗)？",
            "(最近|近来)(好吗|怎么样|如何)？",
        ),
    ),
    "What's your name?": (
        (
            "Comment (t'appelles-tu|vous appelez-vous|tu t'appelles|vous vous appelez) ?",
            "(Quel est|C'est quoi) (ton|votre) (nom|prénom) ?",
        ),
        ("(|请问)(你|您)(叫|的名字是|的名字叫|名字叫|名字是)什么(|名字)？", "(你|您)(贵姓|怎么称呼)？"),
    ),
    "Thank you very much.": (
        ("Merci (beaucoup|bien|infiniment|mille fois).", "Je (te|vous) remercie (beaucoup|infiniment|énormément).", "Un grand merci."),
        (
            "(非常|十分|太|多)(感谢|谢谢)(|你|您|你们|了|你了|您了)。",
            "(谢谢|多谢)(|你|您|你们|了)。",
            "(我|)(非常|十分|很)感谢(你|您)。",
        ),
    ),
    "I'm hungry.": (("J'ai (|très )faim.", "Je suis affamé(|e)."), ("我(|肚子)(|好|很)饿(|了)。",)),
    "I don't understand.": (
        ("Je (|ne )(comprends|saisis) pas.", "Je n'y comprends rien.", "Je ne comprends rien."),
        ("我(不|没|没有)(懂|明白|理解|听懂|看懂)(|了)。", "我(不太|听不)(懂|明白|理解)。"),
    ),
    "Where is the bathroom?": (
        (
            "Où (est|se trouve|se situe) (la salle de bain|la salle de bains|la toilette|le cabinet) ?",
            "Où (sont|se trouvent) (les toilettes|les cabinets|les WC) ?",
        ),
        (
            "(|请问)(浴室|厕所|洗手间|卫生间|盥洗室|浴间)在(哪|哪里|哪儿|什么地方)？",
            "哪里(是|有)(浴室|厕所|洗手间|卫生间)？",
        ),
    ),
    "How much is this?": (
        (
            "Combien (ça|cela|ceci) (coûte|coûte-t-il|vaut|fait) ?",
            "Combien (coûte|vaut|est-ce que coûte) (ça|cela|ceci) ?",
            "Combien est-ce(| que ça coûte| que cela coûte) ?",
            "(C'est|Ça fait|Ça coûte|Cela coûte) combien ?",
            "Quel (est le prix|en est le prix|est le prix de ceci|est le prix de cela) ?",
        ),
        (
            "(|这|这个|这东西|这个东西|它)(|是|要|卖)多少(|钱|钱啊)？",
            "(这|这个)(怎么卖|价格是多少|几多钱|什么价钱)？",
        ),
    ),
    "I'm tired.": (
        ("Je suis (|très )(fatigué|crevé|épuisé)(|e).", "Je suis las(|se)."),
        ("我(|很|好|太|非常|感到|觉得|有点)累(|了|死了|坏了)。", "我(|很)(疲倦|疲惫)(|了)。"),
    ),
    "She is my sister.": (
        ("(C'est|Elle est) ma (|petite |grande )(sœur|soeur).",),
        ("(她|这)是我(|的)(妹妹|姐姐|姊妹|姐妹|妹|姐)。",),
    ),
    "He is a doctor.": (
        ("(Il est|C'est) (|un )(médecin|docteur).",),
        ("(他|这)是(|一)(|个|名|位)(医生|大夫)。",),
    ),
    "What time is it?": (
        ("Quelle heure est-il(| maintenant) ?", "Il est quelle heure ?", "Quelle heure (il est|est-ce) ?"),
        ("(现在|)(|是)(几点|几点钟|什么时间|什么时候)(|了)？", "现在的时间是(几点|多少)？"),
    ),
    "I have a dog.": (
        ("(J'ai|Je possède) un chien.",),
        ("我(|家)(|养)有(|一)(|只|条|个)狗。", "我(|家)养了(|一)(|只|条)狗。"),
    ),
    "Can you help me?": (
        (
            "(Peux-tu|Pouvez-vous|Pourrais-tu|Pourriez-vous|Tu peux|Vous pouvez) (m'aider|me donner un coup de main) ?",
            "Est-ce que (tu peux|vous pouvez) m'aider ?",
        ),
        (
            "(你|您|你们)(能|可以|能够|会)(帮|帮帮|帮助)(我|我一下|我个忙|我的忙|我忙|忙|个忙|我一把)吗？",
            "(你|您|你们)(能|可以)(帮一下|帮助一下)我吗？",
            "(你|您|你们)(能不能|可不可以)(帮|帮帮|帮助|帮一下)(我|我一下|我个忙|我的忙)？",
        ),
    ),
    "I don't know.": (
        ("Je (ne |)sais pas.", "Je l'ignore.", "Je n'en sais rien.", "Je ne le sais pas."),
        ("我(|也)不(知道|晓得|清楚)。",),
    ),
    "See you tomorrow.": (
        (
            "(À|A) demain.",
            "(On se|Je te|Je vous) (voit|vois|verrai|verra|reverrai) demain.",
            "Nous nous (verrons|voyons) demain.",
        ),
        ("(我们|)(明天|明日)(再|)见(|吧|面)。",),
    ),
    "I want to sleep.": (
        ("(Je veux|J'aimerais|J'ai envie de|Je voudrais|Je désire) dormir.",),
        ("我(|很|真|好)想(要|)(睡|睡觉|去睡觉|睡一觉)(|了)。", "我要睡(觉|)(|了)。"),
    ),
    "Do you speak English?": (
        (
            "(Parles-tu|Parlez-vous|Tu parles|Vous parlez) (|l'|en )anglais ?",
            "Est-ce que (tu parles|vous parlez) (|l')anglais ?",
            "(Sais-tu|Savez-vous) parler (|l')anglais ?",
        ),
        ("(你|您|你们)(会|能|)(说|讲)(英语|英文)(吗|么)？", "(你|您)(会不会|能不能)(说|讲)(英语|英文)？", "(你|您)会英(语|文)吗？"),
    ),
    "He is taller than me.": (
        ("Il est plus (grand|haut) que (moi|je ne le suis|je ne suis|je suis).",),
        ("他(|的个子|个子)比我(|还|更|要)高(|一些|一点)。", "他的身高比我高。"),
    ),
    "I lost my keys.": (
        ("(J'ai perdu|J'ai égaré|Je perdis) mes (clés|clefs).",),
        (
            "我(|的)(钥匙|锁匙)(丢|弄丢|不见|遗失|掉)(了|)。",
            "我(丢|弄丢|遗失|丢失|失去|掉)(了|)(我的|)钥匙(了|)。",
            "我把(我的|)钥匙(弄丢|丢|弄没|搞丢)了。",
        ),
    ),
    "My father is at work.": (
        (
            "(Mon père|Papa|Mon papa) est (au travail|au boulot|en train de travailler|à son travail|au bureau).",
            "Mon père travaille.",
        ),
        ("我(|的)(父亲|爸爸|爸)(|现在|正|正在|在|现在在)(上班|工作|工作中|上班中)(|呢)。",),
    ),
    "This book is interesting.": (
        ("(Ce livre est|C'est un livre|Ce livre-ci est) (|très )(intéressant|passionnant).",),
        ("(这|这本|这部|此)书(|很|非常|真|是|挺|十分)(有趣|有意思|好看)(|的)。", "这是(一|)本(有趣|有意思)的书。"),
    ),
    "Please close the door.": (
        (
            "(Ferme|Fermez) la porte, s'il (te|vous) plaît.",
            "S'il (te|vous) plaît, (ferme|fermez) la porte.",
            "(Veuillez|Veuille|Merci de|Prière de) fermer la porte.",
            "Fermez la porte, je vous prie.",
        ),
        (
            "请(你|您|)(把|将)门(关|关上|关好|关起来|关闭)(|吧)。",
            "请(|你|您)(关门|关上门|关好门|关一下门|关闭门|关上那扇门|关上这扇门)。",
        ),
    ),
    "I drink coffee every morning.": (
        (
            "(Je bois|Je prends) (du|un|le|mon) café (tous les matins|chaque matin|le matin).",
            "(Tous les matins|Chaque matin), je (bois|prends) (du|un|mon) café.",
        ),
        (
            "我(每天|每个|每日|天天)(早上|早晨|早|上午|清晨)(都|)(会|)(喝|饮)(一杯|)咖啡。",
            "(每天|每个|每日)(早上|早晨|早)我(都|)(会|要|)喝(一杯|)咖啡。",
        ),
    ),
    "Where do you live?": (
        (
            "Où (vis-tu|vivez-vous|habites-tu|habitez-vous|demeures-tu|demeurez-vous|résides-tu|résidez-vous) ?",
            "Où (tu habites|vous habitez|tu vis|vous vivez) ?",
            "(Tu habites|Vous habitez|Tu vis|Vous vivez) où ?",
            "Où est-ce que (tu habites|vous habitez|tu vis|vous vivez) ?",
        ),
        ("(你|您|你们)(|家|是|居)住(|在)(哪|哪里|哪儿|什么地方|何处)(|啊|呢)？", "(你|您)(家|住处)在(哪|哪里|哪儿)？"),
    ),
    "She has two children.": (
        ("Elle a (deux|2) (enfants|gamins|gosses).", "Elle est mère de deux enfants."),
        ("她有(两|二|2)(|个|名)(孩子|小孩|子女|小孩子|儿女)。",),
    ),
    "I will call you tomorrow.": (
        (
            "Je (t'|vous )(appellerai|appelle) demain.",
            "Je (te|vous) (téléphonerai|téléphone|rappellerai|passerai un coup de fil) demain.",
            "Demain, je (t'appellerai|vous appellerai|te téléphonerai|vous téléphonerai).",
            "Je vais (t'appeler|vous appeler|te téléphoner|vous téléphoner) demain.",
        ),
        (
            "(我|)(明天|明日)(我|)(会|就|将|再|要|)给(你|您)打(|个)电话(|的)。",
            "(我|)(明天|明日)(我|)(会|就|将|再|要|)(打电话给|打给|联系|致电)(你|您)(|的)。",
        ),
    ),
    "Happy birthday!": (
        ("(Joyeux|Bon|Heureux) anniversaire(| à toi| à vous) !", "Bonne fête !", "Je (te|vous) souhaite un (joyeux|bon) anniversaire !"),
        ("(祝你|祝您|祝|)生日(快乐|愉快)！",),
    ),
    "The weather is nice today.": (
        (
            "Il fait (beau|bon|beau temps|un temps agréable|un temps magnifique) aujourd'hui.",
            "Aujourd'hui, il fait (beau|bon|un temps agréable|beau temps).",
            "Le (temps|climat) est (beau|bon|agréable|magnifique|splendide) aujourd'hui.",
            "La météo est (belle|bonne|agréable|magnifique) aujourd'hui.",
            "Le temps (|d')aujourd'hui est (beau|bon|agréable).",
        ),
        ("(今天|今日)(|的)天气(|很|真|非常|挺|十分|是)(好|不错|晴朗)(|的|啊)。", "(今天|今日)(是个|是)好天气。", "天气今天(很|真)好。"),
    ),
    "I bought a new car.": (
        (
            "(J'ai acheté|J'achetai|Je me suis acheté) une nouvelle (voiture|automobile|auto|bagnole).",
            "(J'ai acheté|J'achetai|Je me suis acheté) une (voiture|automobile|auto) neuve.",
        ),
        ("我(|刚)买了(|一)(|台|辆|部|架)新(|的)(车|汽车|车子|轿车)(|了)。", "我买新(车|汽车)了。"),
    ),
}

_GROUP = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")


def expand(template: str) -> list[str]:
    """All sentences of a template."""
    parts = _split(template)
    return ["".join(choice) for choice in itertools.product(*parts)]


def _split(template: str) -> list[list[str]]:
    parts: list[list[str]] = []
    end = 0
    for group in _GROUP.finditer(template):
        parts += [[template[end : group.start()]], [text for option in _options(group[1]) for text in expand(option)]]
        end = group.end()
    return [*parts, [template[end:]]]


def _options(inside: str) -> list[str]:
    """The alternatives of a group: cut at the bars that stand in no inner group."""
    options, depth = [""], 0
    for character in inside:
        depth += (character == "(") - (character == ")")
        if character == "|" and not depth:
            options.append("")
        else:
            options[-1] += character
    return options


def normalised(text: str) -> str:
    """Letters and digits only, lower case: marks, spaces, hyphens and kinds of apostrophe don't decide whether a translation is right."""
    return "".join(ch for ch in unicodedata.normalize("NFKC", text).casefold() if ch.isalnum())


def acceptable(english: str, target: str) -> set[str]:
    """What is accepted for a sentence, normalised."""
    templates = SENTENCES[english][("fra", "cmn").index(target)]
    return {normalised(text) for template in templates for text in expand(template)}
