"""Words that carry no meaning of their own, and the endings of English contractions."""

from __future__ import annotations

import re

_STOP = (
    # articles, pronouns and determiners
    "a an the this that these those i me my mine myself you your yours yourself he him his himself she her hers herself it its itself "
    "we us our ours ourselves they them their theirs themselves one ones some any each every both either neither such same other "
    "another all much many more most few less least own "
    # question words
    "what which who whom whose when where why how "
    # auxiliaries
    "am is are was were be been being do does did doing done have has had having can could shall should will would might must ought "
    # prepositions and conjunctions
    "of to in on at by for from with without into onto upon about as than then and or but nor if so because while until though "
    "although between among through during over under again further off out up down "
    # adverbs and small talk
    "not no yes too very just also only ever never here there now already still yet please "
    # what is left of doesn't, isn't, ... when the ending is gone, where it is no word of its own
    "ain aren couldn didn doesn don hadn hasn haven isn mustn needn shan shouldn wasn weren wouldn"
)
STOP_WORDS = frozenset(_STOP.split())

CONTRACTION = re.compile(r"'(?:s|t|d|m|ll|re|ve)(?![^\W_])(?!')", re.IGNORECASE)
