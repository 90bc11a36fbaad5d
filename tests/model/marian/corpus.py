"""A few hundred made-up sentences in three languages, and the SentencePiece models trained on them."""

from __future__ import annotations

import io
from functools import cache
from itertools import product

import sentencepiece

_SUBJECTS = (
    ("I", "Je", "我"),
    ("The old teacher", "Le vieux professeur", "老师"),
    ("My sister", "Ma sœur", "我的姐姐"),
    ("The little cat", "Le petit chat", "小猫"),
    ("Nobody", "Personne", "没有人"),
    ("The children", "Les enfants", "孩子们"),
    ("A student", "Une étudiante", "一个学生"),
    ("Your friend", "Ton ami", "你的朋友"),
)
_VERBS = (
    ("saw", "a vu", "看见了"),
    ("bought", "a acheté", "买了"),
    ("doesn't know", "ne connaît pas", "不认识"),
    ("will find", "trouvera", "会找到"),
    ("loves", "aime", "喜欢"),
)
_OBJECTS = (
    ("the red apple", "la pomme rouge", "红苹果"),
    ("12 books", "12 livres", "12本书"),
    ("this house", "cette maison", "这个房子"),
    ("the blue boat", "le bateau bleu", "蓝色的船"),
    ("a dog, a horse and a bird", "un chien, un cheval et un oiseau", "狗、马和鸟"),
)
_ENDINGS = ((".", ".", "。"), (" today!", " aujourd'hui !", "今天！"), (", didn't they?", ", n'est-ce pas ?", "，对吗？"))
# For letters, digits and marks that the sentences above lack.
_OTHERS = (
    (
        "The quick brown fox jumps over the lazy dog; 0123456789.",
        "JACK QUIZZED FIVE VEXING WIZARDS (BY EXAMPLE): A-B_C.",
        'She said "well, it costs $5.40 & 20% more" at 6:30?',
        "Where is the station? Here it is, near the long bridge.",
    ),
    (
        "Portez ce vieux whisky au juge blond qui fume ; 0123456789.",
        "VOIX AMBIGUË D'UN CŒUR QUI PRÉFÈRE LES JATTES DE KIWIS (ÉTÉ).",
        "Dès Noël, où un zéphyr haï me vêt de glaçons : 5,40 € ou 20 % ?",
        "Où est la gare ? Elle est ici, près du grand pont_neuf.",
    ),
    (
        "火车站在哪里？在这里，离大桥很近。",
        "今天天气很好，我们去公园吧！",
        "他说：“这要花5.40元，比昨天多20%。”",
        "世界上有很多语言；你好吗？",
    ),
)


def _sentences(language: int) -> tuple[str, ...]:
    space = "" if language == 2 else " "
    return _OTHERS[language] + tuple(
        space.join(part[language] for part in parts) + ending[language]
        for *parts, ending in product(_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS)
    )


ENGLISH, FRENCH, CHINESE = (_sentences(language) for language in range(3))


@cache
def sentencepiece_model(side: str, byte_fallback: bool = False) -> bytes:
    """A trained *.spm file: "source" on English, "target" on French and Chinese. Its settings are those of OPUS-MT: unigram, nmt_nfkc."""
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH if side == "source" else FRENCH + CHINESE),
        model_writer=proto,
        model_type="unigram",
        vocab_size=480 if byte_fallback else 220,
        hard_vocab_limit=False,
        byte_fallback=byte_fallback,
        num_threads=1,
        minloglevel=2,
    )
    return proto.getvalue()


@cache
def pieces(side: str, byte_fallback: bool = False) -> tuple[str, ...]:
    """The pieces of that model without <unk>, <s> and </s>. Byte pieces stay."""
    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(side, byte_fallback))
    ids = range(model.get_piece_size())
    return tuple(model.id_to_piece(i) for i in ids if not model.is_control(i) and not model.is_unknown(i))
