"""Writes tokens.json: what Hugging Face's tokenizers make of texts, with small vocabularies.

    pip install tokenizers==0.23.3
    python3 server/steps/testdata/tokens.py > server/steps/testdata/tokens.json
"""

import json
import pathlib
import tempfile

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

TRAINED_ON = ["the quick brown fox jumps over the lazy dog", "it's a dog's life, isn't it?",
              "unaffable naïve café résumé", "1234 5678 numbers 90", "hello world hello there"]
TEXTS = ["", " ", "the quick brown fox", "The QUICK brown Fox!", "isn't it a dog's life?",
         "naïve café  résumé", "numbers 12345 and 9", "hello\n\nworld\t!", "  two  spaces ",
         "unknown 漢字 words", "we'll they've I'm", "a\x00b\x7f c", "emoji 🙂 here", "x" * 120,
         "line one\nline two\r\n", "((nested)) [brackets] $5", "trailing   "]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = {"texts": TEXTS}
        for cased in (False, True):
            bert = BertWordPieceTokenizer(lowercase=not cased)
            bert.train_from_iterator(TRAINED_ON, vocab_size=120, min_frequency=1)
            bert.save_model(name)
            key = "cased" if cased else "uncased"
            made[key] = {"vocabulary": (folder / "vocab.txt").read_text(encoding="utf-8"),
                         "ids": [bert.encode(t).ids for t in TEXTS]}
        bpe = ByteLevelBPETokenizer()
        bpe.train_from_iterator(TRAINED_ON, vocab_size=330, min_frequency=1)
        bpe.save_model(name)
        made["bpe"] = {"vocabulary": (folder / "vocab.json").read_text(encoding="utf-8"),
                       "merges": (folder / "merges.txt").read_text(encoding="utf-8"),
                       "ids": [bpe.encode(t).ids for t in TEXTS]}
    print(json.dumps(made, ensure_ascii=True, indent=1))


if __name__ == "__main__":
    main()
