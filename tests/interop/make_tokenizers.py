#!/usr/bin/env python3
"""Makes tests/data/tokenizers: a small tokenizer of each kind, trained on this repository's own text,
and the tokens that the tokenizers package makes of text.txt with it.

  make_tokenizers.py    needs the packages tokenizers, sentencepiece and protobuf"""
import array
import base64
import glob
import io
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizers_real import LLAMA3, O200K, QWEN2 # noqa: E402

ROOT = os.path.abspath(os.path.dirname(__file__) + "/../..")
OUT = ROOT + "/tests/data/tokenizers"
CHINESE = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
            "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
            "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def corpus():
    files = sorted(glob.glob(ROOT + "/codecs/*.md") + glob.glob(ROOT + "/codecs/file/*/*.[ch]"))
    return [open(f, encoding="utf-8").read() for f in files] + [open(OUT + "/text.txt", newline="").read()]


def train_bytes(cuts, normalizer=None, ignore_merges=False, size=560):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = cuts
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    return t


def splits(*patterns):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_pieces(normalizer, cuts, fallback=True):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback))
    t.normalizer = normalizer
    # trained on words, as whole lines would become tokens; used as the models of this kind are
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁")
    specials = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=specials, limit_alphabet=120))
    d = json.loads(t.to_str())
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(d))
    t.pre_tokenizer = cuts
    t.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return t


def charsmap():
    """A small compiled normalizer, as SentencePiece makes it of rules."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    rules = [("ﬁ", "fi"), ("…", "..."), ("\u00a0", " "), ("\u3000", " "), ("Ａ", "A"), ("①", "1"),
             ("か\u3099", "が"), ("é", "e"), ("e\u0301", "e"), ("\u00ad", ""), ("\t", " "), ("\n", " "),
             ("ℌ", "H"), ("ｶﾞ", "ガ")]
    path = OUT + "/rules.tsv"
    with open(path, "w", encoding="utf-8") as f:
        for a, b in rules:
            f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()[0].split("\n")), model_writer=model, vocab_size=200,
        normalization_rule_tsv=path, hard_vocab_limit=False, minloglevel=2)
    os.remove(path)
    m = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return m.normalizer_spec.precompiled_charsmap


def train_unigram(fallback):
    t = Tokenizer(models.Unigram())
    steps = [normalizers.Replace(Regex(" {2,}"), " ")]
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap()), *steps])
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    specials = ["<pad>", "</s>", "<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=700, show_progress=False, special_tokens=specials, unk_token="<unk>"))
    d = json.loads(t.to_str())
    d["model"]["byte_fallback"] = fallback
    d["added_tokens"] = [a for a in d["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(d))
    t.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def main():
    spaces = normalizers.Replace(" ", "▁")
    byte = pre_tokenizers.ByteLevel
    made = {
        "gpt2": train_bytes(byte(add_prefix_space=False)),
        "gpt2-prefix": train_bytes(byte(add_prefix_space=True)),
        "smollm": train_bytes(pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), byte(add_prefix_space=False)])),
        "llama3": train_bytes(splits(LLAMA3), ignore_merges=True),
        "qwen2": train_bytes(splits(QWEN2), normalizers.NFC()),
        "o200k": train_bytes(splits(O200K)),
        "deepseek": train_bytes(splits(r"\p{N}{1,3}", CHINESE, DEEPSEEK)),
        "llama2": train_pieces(normalizers.Sequence([normalizers.Prepend("▁"), spaces]), None),
        "gemma": train_pieces(spaces, pre_tokenizers.Split(" ", "merged_with_previous")),
        "mistral": train_pieces(normalizers.NFC(), pre_tokenizers.Metaspace(
            "▁", prepend_scheme="first", split=False), fallback=False),
        "t5": train_unigram(False),
        "unigram-bytes": train_unigram(True),
    }
    text = open(OUT + "/text.txt", encoding="utf-8", newline="").read()
    for name, t in made.items():
        t.add_tokens([AddedToken("<|tool|>", lstrip=True, rstrip=True, normalized=False),
                      AddedToken("word", single_word=True, normalized=False),
                      AddedToken("naïve", normalized=True)])
        open(f"{OUT}/{name}.json", "w", encoding="utf-8").write(
            json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
        ids = t.encode(text).ids
        open(f"{OUT}/{name}.u16", "wb").write(array.array("H", ids).tobytes())
        print(name, t.get_vocab_size(), len(ids))


if __name__ == "__main__":
    main()
