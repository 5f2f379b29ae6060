#!/usr/bin/env python3
"""seeds.py - the first inputs of the fuzz targets: tiny checkpoints in every layout that kerf writes, and every
JSON file that it reads.

    seeds.py KERF OUT    makes OUT/reader, index, command, json, tokenizer, request

What fuzzing found since is in tests/data/fuzz; this is where it began."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '../fault'))
from room import CONFIG, fill, gguf, numbers, safetensors  # noqa: E402

LAYOUTS = {
    'kerf': 'bf16 fp8-e4m3 fp8-e4m3-row mxfp8-e4m3 mxfp6-e2m3 mxfp4 nvfp4 nf4 nf4-dq int8 int4-g32 int4-g32-asym int2-g32',
    'compressed-tensors': 'nvfp4 mxfp4 int8 int4-g32 int4-g32-asym fp8-e4m3 fp8-e4m3-row fp8-e4m3-128x128',
    'modelopt': 'nvfp4 mxfp8-e4m3 fp8-e4m3 int4-g128',
    'deepseek': 'fp8-e4m3-128x128',
    'bitsandbytes': 'nf4 nf4-dq int8',
    'gptq': 'int4-g32 int4-g32-asym int8-g128',
    'gptq-v2': 'int4-g32',
    'gpt-oss': 'mxfp4',
    'torchao': 'int8',
}
COMMAND_LINES = 20


def matrix(rows, columns, seed):
    return 'BF16', [rows, columns], numbers(rows * columns, seed)


def sources():
    """Folders of sources by name: plain, with experts in a stack, with fused groups."""
    one = {'model.layers.0.mlp.down_proj.weight': matrix(16, 128, 1), 'model.norm.weight': ('BF16', [16], numbers(16, 2))}
    group = {'model.layers.0.self_attn.%s_proj.weight' % p: matrix(16, 64, 3 + i) for i, p in enumerate('qkv')}
    moe = {'model.layers.0.mlp.experts.gate_up_proj': ('BF16', [2, 32, 32], numbers(2048, 7)),
           'model.layers.0.mlp.experts.down_proj': ('BF16', [2, 32, 32], numbers(2048, 8))}
    oss = {'model.layers.0.mlp.experts.gate_up_proj': ('BF16', [2, 32, 64], numbers(4096, 7)),
           'model.layers.0.mlp.experts.gate_up_proj_bias': ('BF16', [2, 64], numbers(128, 9)),
           'model.layers.0.mlp.experts.down_proj': ('BF16', [2, 32, 32], numbers(2048, 8))}
    tiles = {'model.layers.0.mlp.down_proj.weight': matrix(128, 128, 1)}
    for name, tensors, model_type in [('one', one, 'llama'), ('group', group, 'llama'), ('moe', moe, 'qwen3_moe'),
                                      ('oss', oss, 'gpt_oss'), ('tiles', tiles, 'deepseek_v3')]:
        yield name, {'model.safetensors': safetensors(tensors),
                     'config.json': json.dumps({**CONFIG, 'model_type': model_type}).encode()}


def join(files):
    """As files.c has several files in one input."""
    out = b''
    for name in sorted(files):
        out += bytes([len(name)]) + name.encode() + len(files[name]).to_bytes(4, 'little') + files[name]
    return out


class Seeds:
    def __init__(self, kerf, out):
        self.kerf, self.out, self.next_line = kerf, out, 0

    def put(self, target, data):
        folder = os.path.join(self.out, target)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()[:16]), 'wb') as f:
            f.write(data)

    def run(self, *args):
        """Whether kerf could do it: not every format stands in every layout."""
        return subprocess.run([self.kerf, *args], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    def checkpoint(self, files):
        """Files of one folder, for the targets that take it."""
        for name, data in files.items():
            if name.endswith(('.safetensors', '.gguf', '.zst')):
                self.put('reader', data)
        small = {n: d for n, d in files.items() if not n.startswith(('tokenizer', 'README'))}
        for _ in range(3): # under some of the command's lines each
            self.put('command', bytes([self.next_line % COMMAND_LINES]) + join(small))
            self.next_line += 7
        if any('index' in n for n in files):
            self.put('index', join(small))


def read(folder):
    return {n: open(os.path.join(folder, n), 'rb').read() for n in os.listdir(folder)}


def checkpoints(seeds):
    for name, files in sources():
        fill('in/' + name, files)
        seeds.checkpoint(files)
    for layout, formats in LAYOUTS.items():
        for number_format in formats.split():
            for source in 'one', 'group', 'moe', 'oss', 'tiles':
                out = '%s-%s-%s' % (layout, number_format, source)
                if seeds.run('quantize', 'in/' + source, '-f', number_format, '--layout', layout, '-o', out):
                    seeds.checkpoint(read(out))
    for ending in 'safetensors.zst', 'safetensors':
        if seeds.run('quantize', 'in/group', '-f', 'nvfp4', '-o', 'o.' + ending):
            seeds.checkpoint({'model.' + ending: open('o.' + ending, 'rb').read()})
    if seeds.run('quantize', 'in/group', '-f', 'int8', '--shard-size', '1100B', '-o', 'sharded'):
        seeds.checkpoint(read('sharded'))
    dense = gguf({'blk.0.ffn_down.weight': (16, 64, numbers(1024, 7)), 'blk.0.attn_q.weight': (4, 256, numbers(1024, 8))})
    fill('in', {'dense.gguf': dense})
    seeds.checkpoint({'model.gguf': dense})
    for number_format in 'nvfp4 mxfp4 ggml-q4_0 ggml-q8_0 ggml-q5_1 ggml-iq4_nl bf16'.split():
        if seeds.run('quantize', 'in/dense.gguf', '-f', number_format, '-y', '-o', 'q.gguf'):
            seeds.checkpoint({'model.gguf': open('q.gguf', 'rb').read()})


def documents(seeds):
    """(line of target_json.c, text)"""
    out = []

    def add(lines, text):
        out.extend((line, text if isinstance(text, bytes) else json.dumps(text).encode()) for line in lines)
    hardware = subprocess.run([seeds.kerf, 'hardware', 'h200', '--json'], capture_output=True).stdout
    document = json.loads(hardware)
    add([3, 4, 8, 14], hardware)
    document['fits'] = [{'format': 'nvfp4', 'batch': [1, 8], 'fixed_us': 2, 'bandwidth_gbps': 4000, 'source': 'x',
                         'date': '2026-01'}]
    add([3, 4, 8, 14], document)
    times = {'schema': 'kerf.bench.gemv/1', 'results': [
        {'format': f, 'n': n, 'k': 4096, 'batch': 1, 'us': n / 500} for f in ('nvfp4', 'bf16') for n in (1024, 4096)]}
    add([5, 6, 7], times)
    weight = 'model.layers.0.mlp.down_proj.weight'
    for recipe in {'schema': 'kerf.recipe/1', 'layout': 'kerf', 'tensors': {weight: {'format': 'int8'}}}, \
            {'schema': 'kerf.recipe/1', 'tensors': {'*': 'nvfp4:4/6'}}:
        add([0, 1], recipe)
    if seeds.run('advise', 'in/one', '--budget', '6bits', '-f', 'int8,nvfp4', '-o', 'r.json', '--cache', 'c.json'):
        add([0, 1], open('r.json', 'rb').read())
        add([15], open('c.json', 'rb').read())
    if seeds.run('quantize', 'in/one', '-f', 'nvfp4', '-o', 'limited') and \
            seeds.run('verify', 'in/one', 'limited', '--write-limits', 'l.json'):
        add([2], open('l.json', 'rb').read())
    add([2], {'schema': 'kerf.limits/1', 'default': {'t2': 0.1, 'bpw': 5}, 'tensors': {'*down*': {'max_error': 1.0}}})
    add([12], {'schema': 'kerf.alpha/1', 'alpha': {'*': 1.5, weight: 2}})
    for data in '../../tests/data/configs',:
        folder = os.path.join(HERE, '../data/configs')
        for name in sorted(os.listdir(folder))[:24]:
            path = os.path.join(folder, name)
            text = open(path, 'rb').read() if os.path.isfile(path) else b'{}'
            if len(text) < 6000 and name.endswith('.json'):
                add([9, 11, 13], text)
    for layout, number_format in [('modelopt', 'nvfp4'), ('compressed-tensors', 'nvfp4'), ('gptq', 'int4-g32'),
                                  ('bitsandbytes', 'nf4'), ('deepseek', 'fp8-e4m3-128x128')]:
        source = 'tiles' if layout == 'deepseek' else 'one'
        path = '%s-%s-%s/' % (layout, number_format, source)
        for name, lines in ('config.json', [17, 18]), ('hf_quant_config.json', [19]):
            if os.path.exists(path + name):
                add(lines, open(path + name, 'rb').read())
    add([20], {'schema': 'kerf.eval-limits/1', 'kl': 0.05, 'kl_p99': 0.6, 'flips': 0.1, 'perplexity_rise': 0.04})
    add([21, 22], {'model_type': 'llama', 'hidden_size': 64, 'intermediate_size': 64, 'num_hidden_layers': 1,
                   'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': 2, 'rms_norm_eps': 1e-5,
                   'hidden_act': 'silu', 'tie_word_embeddings': True, 'max_position_embeddings': 32,
                   'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0,
                                    'high_freq_factor': 4.0, 'original_max_position_embeddings': 16}})
    add([23], b'ab ba b a' * 4)
    add([25, 26], {'schema': 'kerf.score-folder/1', 'source': 'w.safetensors', 'imatrix': None, 'considered': 1,
                   'zstd_level': 3, 'formats': ['nvfp4:amax', 'int8:amax'],
                   'left_out': [{'format': 'nf4:bnb-cpu', 'reason': 'a'}], 'tensors': [weight]})
    for line, text in out:
        seeds.put('json', bytes([line]) + text)


CHARSMAP = json.load(open(os.path.join(HERE, '../data/tokenizers/t5.json')))['normalizer']['normalizers'][0][
    'precompiled_charsmap']
BPE = {'type': 'BPE', 'vocab': {t: i for i, t in enumerate(['<s>', 'a', 'b', 'ab', '\u0120', '\u0120a', '\u00c3', '1', '\u00c3\u00a9', '\u00a9'])},
       'merges': [['a', 'b'], ['\u0120', 'a'], ['\u00c3', '\u00a9']], 'ignore_merges': True}
PIECES = {'type': 'BPE', 'unk_token': '<unk>', 'fuse_unk': True, 'byte_fallback': True, 'merges': ['\u2581 a', 'a b'],
          'vocab': {t: i for i, t in enumerate(['<unk>', '\u2581', 'a', 'b', '\u2581a', 'ab', '<0xC3>', '<0xA9>'])}}
UNIGRAM = {'type': 'Unigram', 'unk_id': 0, 'byte_fallback': False,
           'vocab': [['<unk>', 0.0], ['\u2581', -2.0], ['a', -3.0], ['ab', -1.5], ['\u2581a', -2.5], ['b', -4]]}
REGEX = "(?i:'s)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
TEXT = ' ab  a1234 \u00e9e\u0301\r\n<s>\u2581b\u3000caf\u00e9'.encode()


def tokenizers(seeds):
    def put(model, normalizer=None, cut=None, post=None):
        added = [{'id': 0, 'content': '<s>', 'special': True, 'lstrip': True, 'rstrip': True, 'normalized': False},
                 {'id': 3, 'content': 'ab', 'single_word': True, 'normalized': True}]
        document = {'added_tokens': added, 'normalizer': normalizer, 'pre_tokenizer': cut, 'post_processor': post,
                    'model': model}
        seeds.put('tokenizer', join({'t': json.dumps(document).encode(), 'x': TEXT}))

    split = {'type': 'Split', 'pattern': {'Regex': REGEX}, 'behavior': 'Isolated', 'invert': False}
    template = {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<s>'}}, {'Sequence': {'id': 'A'}}],
                'special_tokens': {'<s>': {'ids': [0]}}}
    spaces = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '\u2581'}
    put(BPE, {'type': 'NFC'}, {'type': 'Sequence', 'pretokenizers': [
        split, {'type': 'ByteLevel', 'add_prefix_space': True, 'use_regex': False}]}, template)
    put(BPE, None, {'type': 'Sequence', 'pretokenizers': [
        {'type': 'Digits', 'individual_digits': True}, {'type': 'ByteLevel', 'use_regex': True}]})
    put(PIECES, {'type': 'Sequence', 'normalizers': [{'type': 'Prepend', 'prepend': '\u2581'}, spaces]}, None, template)
    put(PIECES, spaces, dict(split, pattern={'String': ' '}, behavior='MergedWithPrevious'))
    put(UNIGRAM, {'type': 'Precompiled', 'precompiled_charsmap': CHARSMAP}, {'type': 'Metaspace', 'replacement': '\u2581',
                                                                          'prepend_scheme': 'first', 'split': True})
    put(UNIGRAM, {'type': 'Strip', 'strip_left': True, 'strip_right': True}, {'type': 'WhitespaceSplit'})


MACHINE = {'hardware': 'h200', 'formats': ['nvfp4', 'int8']}
REQUESTS = [
    ('POST /api/v1/analyze', {'hardware': 'h200', 'rows': 4096, 'cols': 4096, 'format': 'nvfp4', 'batch': 3}),
    ('POST /api/v1/sweep', dict(MACHINE, shapes=[[64, 128]], batches=[1, 2])),
    ('POST /api/v1/predict', dict(MACHINE, config={**CONFIG}, context=64, kv='fp8-e4m3')),
    ('POST /api/v1/predict', dict(MACHINE, model='.', prefill=True)),
    ('POST /api/v1/recommend', {'model': '.', 'budget': ['5bits'], 'formats': ['int8'], 'keep': ['*lm_head*'],
                                'minimise': 'bytes', 'runtime': 'vllm'}),
    ('POST /api/v1/quantize', {'model': '.', 'format': 'int8:search', 'output': 'q', 'only': ['*'], 'device': 'cpu'}),
    ('POST /api/v1/score', {'model': '.', 'formats': ['nvfp4:*'], 'zstd_level': 3}),
    ('POST /api/v1/measure', {'rows': 64, 'cols': 64, 'formats': ['int8']}),
    ('POST /api/v1/eval', {'model': '.', 'candidates': ['.'], 'tokens': 'eval.u16', 'length': 64, 'rows': '0:2'}),
    ('GET /api/v1/jobs/7', {}), ('DELETE /api/v1/jobs/7', {}), ('POST /api/v1/jobs/7/solve', {'bits': 5}),
]


def requests(seeds):
    for line, body in REQUESTS:
        head = '%s\nlocalhost:8420\nhttp://127.0.0.1:8420\nBearer 0123456789abcdef\n' % line
        seeds.put('request', (head + json.dumps(body)).encode())


def main():
    kerf, out = (os.path.abspath(p) for p in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        seeds = Seeds(kerf, out)
        checkpoints(seeds)
        documents(seeds)
        tokenizers(seeds)
        requests(seeds)
        os.chdir('/')


if __name__ == '__main__':
    main()
